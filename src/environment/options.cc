#include "environment/options.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stoker {
namespace {

// JSON's scalars and arrays are written alike in TOML, but for DEL, which TOML wants escaped.
std::string toml_value(const Json& value) {
  std::string text;
  for (char c : value.dump()) {
    if (c == '\x7F') {
      text += "\\u007f";
    } else {
      text.push_back(c);
    }
  }
  return text;
}

bool has_toml_form(const Json& value) {
  if (value.is_null() || value.is_object()) return false;
  if (!value.is_array()) return true;
  for (const Json& element : value.as_array()) {
    if (!has_toml_form(element)) return false;
  }
  return true;
}

}  // namespace

void read_options(ConfigReader& reader, const Json& options, const std::string& place) {
  if (options.is_null()) return;
  if (!options.is_object()) {
    throw input_error(
        fmt::format("{}: the options must be a table, but are {}.", place, options.type_name()));
  }
  for (const auto& [name, value] : options.as_object()) {
    if (!has_toml_form(value)) {
      throw input_error(fmt::format("{}: {} must be a plain value or a list, but holds {}.", place, name,
                                    value.is_null() ? "null" : "a table"));
    }
    try {
      reader.read_text(Json(name).dump() + " = " + toml_value(value), place);
    } catch (const Error& error) {
      // Every option is a text of one line of its own; its number would only mislead.
      const std::string with_line = place + ", line 1";
      std::string sentence = error.what();
      if (sentence.starts_with(with_line)) sentence = place + sentence.substr(with_line.size());
      throw Error(error.kind(), sentence);
    }
  }
}

}  // namespace stoker
