#pragma once

#include <string>

namespace stoker::jinja {

// What a failed lookup gives: prints as nothing, is false, and any other use of it is an error.
struct Undefined {
  const std::string* name = nullptr;  // in the template; null when computed

  bool operator==(const Undefined&) const { return true; }
};
struct None {
  bool operator==(const None&) const = default;
};
// An integer beyond 64 bits, as its decimal digits. It can be printed and compared for equality.
struct BigInteger {
  std::string digits;

  bool operator==(const BigInteger&) const = default;
};

}  // namespace stoker::jinja
