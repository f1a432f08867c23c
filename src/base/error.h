#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace stoker {

// Who can remedy an error; decides the exit status of the command line (DESIGN section 8).
enum class ErrorKind {
  kInput,     // wrong use or wrong input: a file, a key, a row. Exit status 2.
  kResource,  // the machine refused: disk full, out of memory, no permission. Exit status 1.
  kInternal,  // a broken promise inside Stoker. Exit status 1.
};

// The one exception class. The message is one clear sentence that names the thing (file, line, key), what is
// wrong with it and what to do. Thrown where failure is not expected; expected failures are Result values.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

inline Error input_error(const std::string& sentence) { return Error(ErrorKind::kInput, sentence); }
inline Error resource_error(const std::string& sentence) { return Error(ErrorKind::kResource, sentence); }
inline Error internal_error(const std::string& sentence) { return Error(ErrorKind::kInternal, sentence); }

}  // namespace stoker
