#include "text/jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/json_values.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/sequence_filters.h"

namespace stoker::jinja {
namespace {

bool flag(const Arguments& arguments, size_t position, std::string_view name, bool absent) {
  const Value* value = arguments.find(position, name);
  return value == nullptr ? absent : is_truthy(*value);
}

// What jinja2's soft_str() gives.
MarkedText soft_text(const Value& value) { return to_text(value); }

Value length(const Value& v, const Arguments& a, Budget&) {
  a.expect({});
  if (v.is_undefined()) return int64_t{0};
  if (v.text() != nullptr) return count_characters(v.text()->bytes());
  if (v.list() != nullptr && v.list()->kind != ListKind::kGenerator) return v.list()->items.size();
  if (v.dict() != nullptr) return v.dict()->members.size();
  throw RenderError{fmt::format("a {} has no length", type_name(v))};
}

Value default_value(const Value& v, const Arguments& a, Budget&) {
  a.expect({"default_value", "boolean"});
  bool absent = v.is_undefined() || (flag(a, 1, "boolean", false) && !is_truthy(v));
  if (!absent) return v;
  const Value* other = a.find(0, "default_value");
  return other == nullptr ? Value(MarkedText()) : *other;
}

Value to_json(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonFormat format;
  format.ascii_only = flag(a, 0, "ensure_ascii", false);
  format.sort_keys = flag(a, 3, "sort_keys", false);
  if (const Value* indent = a.find(1, "indent"); indent != nullptr && !indent->is_none()) {
    if (!to_integer(*indent, format.indent))
      throw RenderError{"tojson supports an indent that is an integer"};
    format.indent = std::clamp<int64_t>(format.indent, 0, 1000);
    format.item_separator = ",";
  }
  if (const Value* separators = a.find(2, "separators"); separators != nullptr && !separators->is_none()) {
    const List* list = separators->list();
    bool pair = list != nullptr && list->items.size() == 2 && list->items[0].text() != nullptr &&
                list->items[1].text() != nullptr;
    if (!pair) throw RenderError{"the separators of tojson must be two texts"};
    format.item_separator = list->items[0].text()->bytes();
    format.key_separator = list->items[1].text()->bytes();
  }
  return to_json_text(v, format, b);
}

Value trim(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"chars"});
  MarkedText text = soft_text(v);
  b.bytes(text.size());
  return strip(text, a.find(0, "chars"), true, true);
}

Value replace_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"old", "new", "count"});
  const Value* old_text = a.find(0, "old");
  const Value* new_text = a.find(1, "new");
  if (old_text == nullptr || new_text == nullptr) throw RenderError{"replace needs two arguments"};
  int64_t count = -1;
  const Value* limit = a.find(2, "count");
  if (limit != nullptr && !limit->is_none() && !to_integer(*limit, count))
    throw RenderError{"the count of replace must be an integer"};
  MarkedText text = to_text(v);
  text.set_markup(false);
  b.bytes(text.size());
  return replace(text, to_text(*old_text), to_text(*new_text), count, b);
}

Value indent(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"width", "first", "blank"});
  if (v.text() == nullptr) throw RenderError{fmt::format("indent needs text, found {}", type_name(v))};
  MarkedText indentation("    ", kTemplateSource);
  if (const Value* width = a.find(0, "width")) {
    int64_t blanks = 0;
    if (width->text() != nullptr) {
      indentation = *width->text();
    } else if (to_integer(*width, blanks)) {
      indentation = {std::string(static_cast<size_t>(std::clamp<int64_t>(blanks, 0, 10000)), ' '),
                     kTemplateSource};
    } else {
      throw RenderError{"the width of indent must be an integer or text"};
    }
  }
  MarkedText text = *v.text();
  text.append("\n", text.source_at(text.size()));
  std::vector<MarkedText> lines = split_lines(text, false);
  bool blank = flag(a, 2, "blank", false);
  b.bytes(text.size() + lines.size() * (indentation.size() + 1));
  MarkedText result;
  if (flag(a, 1, "first", false)) result.append(indentation);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      result.append("\n", kTemplateSource);
      if (blank || !lines[i].empty()) result.append(indentation);
    }
    result.append(lines[i]);
  }
  return result;
}

// int() and float() of text, as Python reads it; false when it is no number.
bool parse_float(std::string_view text, double& number) {
  ByteRange kept = stripped(text, nullptr, true, true);
  std::string digits(text.substr(kept.begin, kept.end - kept.begin));
  for (size_t i = 1; i + 1 < digits.size();) {
    bool between = digits[i] == '_' && std::isdigit(static_cast<unsigned char>(digits[i - 1])) &&
                   std::isdigit(static_cast<unsigned char>(digits[i + 1]));
    if (between) {
      digits.erase(i, 1);
    } else {
      ++i;
    }
  }
  const char* begin = digits.data() + (digits.starts_with('+') && !digits.starts_with("+-") ? 1 : 0);
  const char* end = digits.data() + digits.size();
  if (begin == end) return false;
  auto [stop, error] = std::from_chars(begin, end, number);
  return stop == end && (error == std::errc() || error == std::errc::result_out_of_range);
}

Value from_double(double number, const Value& absent) {
  if (!std::isfinite(number)) return absent;
  if (std::fabs(number) < 9.2e18) return static_cast<int64_t>(number);
  return BigInteger{fmt::format("{:.0f}", std::trunc(number))};
}

Value to_int(const Value& v, const Arguments& a, Budget&) {
  a.expect({"default", "base"});
  const Value* given = a.find(0, "default");
  Value absent = given == nullptr ? Value(0) : *given;
  int64_t base = 10;
  if (const Value* other = a.find(1, "base"); other != nullptr && !to_integer(*other, base))
    throw RenderError{"the base of int must be an integer"};
  if (v.is_undefined()) refuse_undefined(*v.undefined());
  int64_t integer = 0;
  if (to_integer(v, integer)) return integer;
  if (v.big_integer() != nullptr) return v;
  if (v.is_double()) return from_double(v.real(), absent);
  const MarkedText* text = v.text();
  if (text == nullptr) return absent;
  ByteRange kept = stripped(text->bytes(), nullptr, true, true);
  std::string digits = text->bytes().substr(kept.begin, kept.end - kept.begin);
  bool negative_sign = digits.starts_with('-');
  if (negative_sign || digits.starts_with('+')) digits.erase(0, 1);
  if (base == 16 && (digits.starts_with("0x") || digits.starts_with("0X"))) digits.erase(0, 2);
  if (base == 8 && (digits.starts_with("0o") || digits.starts_with("0O"))) digits.erase(0, 2);
  if (base == 2 && (digits.starts_with("0b") || digits.starts_with("0B"))) digits.erase(0, 2);
  if (base < 2 || base > 36) throw RenderError{"the base of int must be from 2 to 36"};
  const char* end = digits.data() + digits.size();
  auto [stop, error] = std::from_chars(digits.data(), end, integer, static_cast<int>(base));
  if (stop == end && error == std::errc() && !digits.starts_with('-'))
    return negative_sign ? -integer : integer;
  if (stop == end && error == std::errc::result_out_of_range && base == 10)
    return BigInteger{(negative_sign ? "-" : "") + digits};
  double number = 0;
  return parse_float(text->bytes(), number) ? from_double(number, absent) : absent;
}

Value to_float(const Value& v, const Arguments& a, Budget&) {
  a.expect({"default"});
  const Value* given = a.find(0, "default");
  if (v.is_undefined()) refuse_undefined(*v.undefined());
  if (is_number(v)) return to_double(v);
  double number = 0;
  if (v.big_integer() != nullptr && parse_float(v.big_integer()->digits, number)) return number;
  if (v.text() != nullptr && parse_float(v.text()->bytes(), number)) return number;
  return given == nullptr ? Value(0.0) : *given;
}

Value round_filter(const Value& v, const Arguments& a, Budget&) {
  a.expect({"precision", "method"});
  int64_t precision = 0;
  if (const Value* given = a.find(0, "precision"); given != nullptr && !to_integer(*given, precision))
    throw RenderError{"the precision of round must be an integer"};
  const Value* method = a.find(1, "method");
  std::string how = method == nullptr ? "common" : to_text(*method).bytes();
  if (how != "common" && how != "ceil" && how != "floor")
    throw RenderError{"the method of round must be common, ceil or floor"};
  int64_t integer = 0;
  if (how == "common" && precision >= 0 && to_integer(v, integer)) return integer;
  double number = to_double(v);
  precision = std::clamp<int64_t>(precision, -300, 300);
  double scale = std::pow(10.0, static_cast<double>(precision));
  if (how == "ceil") return std::ceil(number * scale) / scale;
  if (how == "floor") return std::floor(number * scale) / scale;
  if (precision < 0) {
    double rounded = std::nearbyint(number * scale) / scale;
    return to_integer(v, integer) ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
  }
  // Decimal digits of the exact value, halves to even, as Python rounds.
  if (!std::isfinite(number) || precision > 20) return number;
  double result = 0;
  std::string digits = fmt::format("{:.{}f}", number, precision);
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

Value absolute(const Value& v, const Arguments& a, Budget&) {
  a.expect({});
  int64_t integer = 0;
  if (to_integer(v, integer)) return integer < 0 ? negative(v) : positive(v);
  if (v.is_undefined()) refuse_undefined(*v.undefined());
  return std::fabs(to_double(v));
}

Value text_filter(const Value& v, const Arguments& a, Budget& b, MarkedText (*change)(const MarkedText&)) {
  a.expect({});
  MarkedText text = soft_text(v);
  b.bytes(2 * text.size());
  return change(text);
}

Value center(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"width"});
  const Value* width = a.find(0, "width");
  return call_method(Value(soft_text(v)), "center", {{width == nullptr ? Value(80) : *width}, {}}, b);
}

Value escape_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  MarkedText text = to_text(v);
  b.bytes(6 * text.size());
  return text.is_markup() ? Value(std::move(text)) : Value(escaped(text));
}

Value safe(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  MarkedText text = to_text(v);
  b.bytes(text.size());
  text.set_markup(true);
  return text;
}

Value string_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  if (v.is_text()) return v;
  MarkedText text = to_text(v);
  b.bytes(text.size());
  return text;
}

Value items_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  if (v.is_undefined()) return make_list({}, ListKind::kGenerator);
  if (v.dict() == nullptr) throw RenderError{fmt::format("items needs a dict, found {}", type_name(v))};
  std::vector<Value> pairs = elements(call_method(v, "items", {}, b), b);
  return make_list(std::move(pairs), ListKind::kGenerator, v.dict()->source);
}

Value attr(const Value& v, const Arguments& a, Budget&) {
  a.expect({"name"});
  const Value* name = a.find(0, "name");
  if (name == nullptr || name->text() == nullptr) throw RenderError{"attr needs a name"};
  if (is_method(v, name->text()->bytes())) return make_method(v, name->text()->bytes());
  return Undefined{};
}

using Filter = Value (*)(const Value& input, const Arguments& arguments, Budget& budget);

struct NamedFilter {
  std::string_view name;
  Filter apply;
};

constexpr NamedFilter kFilters[] = {
    {"tojson", to_json},
    {"trim", trim},
    {"length", length},
    {"count", length},
    {"default", default_value},
    {"d", default_value},
    {"items", items_filter},
    {"string", string_filter},
    {"safe", safe},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"replace", replace_filter},
    {"indent", indent},
    {"int", to_int},
    {"float", to_float},
    {"round", round_filter},
    {"abs", absolute},
    {"attr", attr},
    {"center", center},
    {"upper", [](const Value& v, const Arguments& a, Budget& b) { return text_filter(v, a, b, upper); }},
    {"lower", [](const Value& v, const Arguments& a, Budget& b) { return text_filter(v, a, b, lower); }},
    {"capitalize",
     [](const Value& v, const Arguments& a, Budget& b) { return text_filter(v, a, b, capitalize); }},
    {"title",
     [](const Value& v, const Arguments& a, Budget& b) {
       return text_filter(v, a, b, [](const MarkedText& text) { return title(text, false); });
     }},
    {"join", join_filter},
    {"list", list_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"reverse", reverse_filter},
    {"sort", sort_filter},
    {"unique", unique_filter},
    {"dictsort", dictsort_filter},
    {"sum", sum_filter},
    {"min", [](const Value& v, const Arguments& a, Budget& b) { return extreme_filter(v, a, b, false); }},
    {"max", [](const Value& v, const Arguments& a, Budget& b) { return extreme_filter(v, a, b, true); }},
    {"map", map_filter},
    {"select",
     [](const Value& v, const Arguments& a, Budget& b) { return select_filter(v, a, b, true, false); }},
    {"reject",
     [](const Value& v, const Arguments& a, Budget& b) { return select_filter(v, a, b, false, false); }},
    {"selectattr",
     [](const Value& v, const Arguments& a, Budget& b) { return select_filter(v, a, b, true, true); }},
    {"rejectattr",
     [](const Value& v, const Arguments& a, Budget& b) { return select_filter(v, a, b, false, true); }},
};

}  // namespace

int find_filter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const NamedFilter& filter) { return filter.name == name; });
  return found == std::end(kFilters) ? -1 : static_cast<int>(found - kFilters);
}

Value apply_filter(int filter, const Value& input, const Arguments& arguments, Budget& budget) {
  budget.step();
  return kFilters[filter].apply(input, arguments, budget);
}

}  // namespace stoker::jinja
