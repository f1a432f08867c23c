#pragma once

namespace stoker {

constexpr const char* kOutputFailure =
    "The output could not be written to its end; is the disk full on which it goes?";

// As of a program that SIGPIPE has ended, which is what shells and scripts know.
constexpr int kExitOutputClosed = 141;

// Whether a write to standard output has failed.
bool output_has_failed();

// Whether a write to standard output has failed because nobody reads it any more, as in `stoker keys | head`.
bool output_is_closed();

// Writes out what standard output still holds, and returns the exit status of a verb that ended with
// `status`: itself, or kExitOutputClosed where all went well but the reading. Throws Error(kResource) when
// the output was lost for another reason.
int finish_output(int status);

}  // namespace stoker
