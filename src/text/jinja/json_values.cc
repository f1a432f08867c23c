#include "text/jinja/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include "base/utf8.h"
#include "text/json_text.h"

namespace stoker::jinja {
namespace {

// Reads text that scan_json has found to be one whole value.
class JsonReader {
 public:
  JsonReader(std::string_view text, Source source) : text_(text), source_(source) {}

  Value read() {
    skip_blanks();
    switch (text_[at_]) {
      case '{':
        return read_object();
      case '[':
        return read_array();
      case '"':
        return Value(read_string(), source_);
      case 't':
        at_ += 4;
        return true;
      case 'f':
        at_ += 5;
        return false;
      case 'n':
        at_ += 4;
        return None{};
      default:
        return read_number();
    }
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  // Whether another element comes; passes the comma or the closing bracket.
  bool more(char close) {
    skip_blanks();
    if (text_[at_] == close) {
      ++at_;
      return false;
    }
    if (text_[at_] == ',') ++at_;
    return true;
  }

  Value read_object() {
    ++at_;
    std::vector<std::pair<Value, Value>> members;
    while (more('}')) {
      skip_blanks();
      Value key(read_string(), source_);
      skip_blanks();
      ++at_;  // the colon
      Value value = read();
      members.emplace_back(std::move(key), std::move(value));
    }
    return make_dict(std::move(members), source_);
  }

  Value read_array() {
    ++at_;
    std::vector<Value> items;
    while (more(']')) items.push_back(read());
    return make_list(std::move(items), ListKind::kList, source_);
  }

  Value read_number() {
    size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[at_]) != std::string_view::npos)
      ++at_;
    std::string digits(text_.substr(begin, at_ - begin));
    if (digits.find_first_of(".eE") != std::string::npos) return std::strtod(digits.c_str(), nullptr);
    int64_t number = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc())
      return number;
    return BigInteger{digits};
  }

  uint32_t read_code_unit() {
    uint32_t unit = 0;
    std::from_chars(text_.data() + at_, text_.data() + at_ + 4, unit, 16);
    at_ += 4;
    return unit;
  }

  std::string read_string() {
    std::string text;
    for (++at_; text_[at_] != '"';) {
      if (text_[at_] != '\\') {
        text.push_back(text_[at_++]);
        continue;
      }
      char c = text_[at_ + 1];
      at_ += 2;
      static constexpr std::string_view kSimple = "b\bf\fn\nr\rt\t";
      size_t simple = kSimple.find(c);
      if (c != 'u') {
        text.push_back(simple == std::string_view::npos ? c : kSimple[simple + 1]);
        continue;
      }
      uint32_t unit = read_code_unit();
      bool pair = unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_, 2) == "\\u";
      if (pair) {
        size_t after = at_;
        at_ += 2;
        uint32_t low = read_code_unit();
        if (low >= 0xDC00 && low < 0xE000) {
          unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        } else {
          at_ = after;
        }
      }
      append_utf8(text, unit >= 0xD800 && unit < 0xE000 ? U'\uFFFD' : static_cast<char32_t>(unit));
    }
    ++at_;
    return text;
  }

  std::string_view text_;
  Source source_;
  size_t at_ = 0;
};

class JsonWriter {
 public:
  JsonWriter(const JsonFormat& format, Budget& budget) : format_(format), budget_(budget) {}

  void write(const Value& value, Source source) {
    budget_.step();
    if (const MarkedText* text = value.text()) {
      budget_.bytes(text->size() + 2);
      quoted(*text, source);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict);
    } else if (const List* list = value.list(); list != nullptr && list->kind != ListKind::kGenerator) {
      write_list(*list);
    } else {
      out_.append(scalar(value), source);
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_double()) return python_json(Json(value.real()));
    if (value.is_integer() || value.big_integer() != nullptr) return to_text(value).bytes();
    throw RenderError{fmt::format("a {} is no JSON", type_name(value))};
  }

  void new_line(Source source) {
    if (format_.indent < 0) return;
    size_t blanks = static_cast<size_t>(format_.indent) * level_;
    budget_.bytes(blanks + 1);
    out_.append("\n" + std::string(blanks, ' '), source);
  }

  // Between elements; with an indentation the line break takes the place of the blank.
  void separate(bool first, Source source) {
    if (!first) out_.append(format_.item_separator, source);
    new_line(source);
  }

  void write_list(const List& list) {
    if (list.items.empty()) return out_.append("[]", list.source);
    out_.append("[", list.source);
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      separate(i == 0, list.source);
      write(list.items[i], list.source);
    }
    --level_;
    new_line(list.source);
    out_.append("]", list.source);
  }

  void write_dict(const Dict& dict) {
    if (dict.members.empty()) return out_.append("{}", dict.source);
    std::vector<const std::pair<Value, Value>*> members;
    members.reserve(dict.members.size());
    for (const auto& member : dict.members) members.push_back(&member);
    if (format_.sort_keys) {
      // Keys differ, so that the order is one.
      std::sort(members.begin(), members.end(),
                [](const auto* a, const auto* b) { return is_less(a->first, b->first); });
    }
    out_.append("{", dict.source);
    ++level_;
    for (size_t i = 0; i < members.size(); ++i) {
      separate(i == 0, dict.source);
      const Value& key = members[i]->first;
      quoted(key.text() != nullptr ? *key.text() : MarkedText(scalar(key), dict.source), dict.source);
      out_.append(format_.key_separator, dict.source);
      write(members[i]->second, dict.source);
    }
    --level_;
    new_line(dict.source);
    out_.append("}", dict.source);
  }

  void quoted(const MarkedText& text, Source source) {
    if (!text.empty()) source = text.source_at(0);
    out_.append("\"", source);
    const std::string& bytes = text.bytes();
    size_t done = 0;
    for (size_t at = 0; at < bytes.size();) {
      auto byte = static_cast<unsigned char>(bytes[at]);
      if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7F || !format_.ascii_only)) {
        ++at;
        continue;
      }
      out_.append_part(text, done, at);
      source = text.source_at(at);
      Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
      out_.append(escape(step.valid ? step.code_point : U'\uFFFD'), source);
      at += step.size;
      done = at;
    }
    out_.append_part(text, done, bytes.size());
    out_.append("\"", text.empty() ? source : text.source_at(bytes.size()));
  }

  static std::string escape(char32_t c) {
    static constexpr std::u32string_view kSimple = U"\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i < kSimple.size(); i += 2) {
      if (kSimple[i] == c) return {'\\', static_cast<char>(kSimple[i + 1])};
    }
    auto code = static_cast<uint32_t>(c);
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    code -= 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF));
  }

  const JsonFormat& format_;
  Budget& budget_;
  MarkedText out_;
  size_t level_ = 0;
};

}  // namespace

Value from_json(const Json& json, Source source) {
  if (json.is_null()) return None{};
  if (json.is_bool()) return json.as_bool();
  if (json.is_double()) return json.as_double();
  if (json.is_string()) return Value(json.as_string(), source);
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.as_array().size());
    for (const Json& element : json.as_array()) items.push_back(from_json(element, source));
    return make_list(std::move(items), ListKind::kList, source);
  }
  if (json.is_object()) {
    std::vector<std::pair<Value, Value>> members;
    members.reserve(json.as_object().size());
    for (const auto& [name, member] : json.as_object())
      members.emplace_back(Value(name, source), from_json(member, source));
    return make_dict(std::move(members), source);
  }
  std::string digits = json.dump();
  int64_t number = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc()) return number;
  return BigInteger{std::move(digits)};
}

Result<Value> parse_json_value(std::string_view text, Source source) {
  auto bad = [](const std::string& message) { return Failure{FailureClass::kEnvironment, "json", message}; };
  size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string_view value = text.substr(begin);
  // A number that ends the text could go on; the blank says that it does not.
  std::string closed = std::string(value) + " ";
  JsonScan scan = scan_json(closed);
  if (scan.status != JsonScan::Status::kComplete)
    return bad(fmt::format("no JSON at byte {}: {}", begin + scan.position, scan.reason));
  if (closed.find_first_not_of(" \t\r\n", scan.position) != std::string::npos)
    return bad(fmt::format("no JSON at byte {}: the text goes on after the value", begin + scan.position));
  try {
    return JsonReader(closed, source).read();
  } catch (const RenderError& error) {
    return bad(error.message);
  }
}

Value with_source(const Value& value, Source source) {
  if (const MarkedText* text = value.text()) return Value(text->bytes(), source);
  if (const List* list = value.list()) {
    std::vector<Value> items;
    items.reserve(list->items.size());
    for (const Value& item : list->items) items.push_back(with_source(item, source));
    return make_list(std::move(items), list->kind, source);
  }
  if (const Dict* dict = value.dict()) {
    std::vector<std::pair<Value, Value>> members;
    members.reserve(dict->members.size());
    for (const auto& [key, member] : dict->members)
      members.emplace_back(with_source(key, source), with_source(member, source));
    return make_dict(std::move(members), source, dict->message);
  }
  return value;
}

MarkedText to_json_text(const Value& value, const JsonFormat& format, Budget& budget) {
  JsonWriter writer(format, budget);
  writer.write(value, kTemplateSource);
  return writer.take();
}

}  // namespace stoker::jinja
