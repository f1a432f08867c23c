#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::jinja {

// A place in a template, both from 1; columns count characters.
struct Place {
  int line = 0;
  int column = 0;
};

enum class TokenKind : uint8_t {
  kData,        // text outside of tags
  kPrintBegin,  // {{
  kPrintEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // `text` is the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  Place place;
};

// A template that cannot be compiled.
struct SyntaxError {
  std::string message;
  Place place;
};

// Cuts a template into tokens with transformers' settings: trim_blocks and lstrip_blocks on, the newline at
// the very end dropped, line ends normalised. Comments and the marks of raw blocks are gone. Throws
// SyntaxError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace stoker::jinja
