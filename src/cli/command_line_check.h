#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace stoker {

// What is wrong with a command line, in sentences that name the thing and the remedy.

// For CLI::Option::check: a whole number from `least` to `most`.
std::function<std::string(const std::string&)> whole_number(
    int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

// An option for a file that the verb writes. One that cannot be written is refused while the command line is
// read, before the work.
void add_output_file(CLI::App& verb, const std::string& name, std::filesystem::path& path,
                     const std::string& description);

// From now on the options of `app` and its verbs refuse an empty value, those named in `except` excepted.
void refuse_empty_values(CLI::App& app, const std::vector<std::string>& except);

// Throws Error(kInput) where a word stands for a verb, or for the verb within one (`stoker text parse`), that
// there is not: with the verb it may have been meant for, and all there are.
void refuse_unknown_verb(const CLI::App& app, int argument_count, char** argument_values);

// The sentence for a command line that does not parse.
std::string parse_error_sentence(const CLI::App& app, const CLI::ParseError& error);

}  // namespace stoker
