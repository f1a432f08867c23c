#include "base/json_string.h"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.h"

namespace stoker {
namespace {

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out.push_back(c);
      }
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text, InvalidUtf8 invalid) {
  out.push_back('"');
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      append_ascii(out, text[0]);
      text.remove_prefix(1);
      continue;
    }
    Utf8Step step = utf8_step(text);
    bool keep = step.valid || invalid == InvalidUtf8::kKeep;
    out += keep ? text.substr(0, step.size) : std::string_view("\xEF\xBF\xBD");
    text.remove_prefix(step.size);
  }
  out.push_back('"');
}

}  // namespace stoker
