#include "text/jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/utf8.h"
#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"
#include "text/unicode.h"

namespace stoker::jinja {
namespace {

const MarkedText& text_argument(const Arguments& arguments, size_t position, std::string_view name) {
  const Value* value = arguments.find(position, name);
  if (value == nullptr) throw RenderError{fmt::format("the argument '{}' is missing", name)};
  if (value->text() == nullptr)
    throw RenderError{fmt::format("the argument '{}' must be text, found {}", name, type_name(*value))};
  return *value->text();
}

int64_t integer_argument(const Arguments& arguments, size_t position, std::string_view name, int64_t absent) {
  const Value* value = arguments.find(position, name);
  if (value == nullptr) return absent;
  int64_t number = 0;
  if (!to_integer(*value, number))
    throw RenderError{fmt::format("the argument '{}' must be an integer, found {}", name, type_name(*value))};
  return number;
}

bool all_characters(const MarkedText& text, bool (*holds)(char32_t)) {
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8_step(std::string_view(text.bytes()).substr(at));
    if (!step.valid || !holds(step.code_point)) return false;
    at += step.size;
  }
  return !text.empty();
}

// isupper() and islower(): some cased character, and none of the other case.
bool has_only_case(const MarkedText& text, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8_step(std::string_view(text.bytes()).substr(at));
    if (step.valid && other(step.code_point)) return false;
    found = found || (step.valid && wanted(step.code_point));
    at += step.size;
  }
  return found;
}

std::vector<Value> to_values(std::vector<MarkedText> parts) {
  std::vector<Value> values;
  for (MarkedText& part : parts) values.emplace_back(std::move(part));
  return values;
}

// split() without a separator: at runs of blanks.
std::vector<MarkedText> split_at_blanks(const MarkedText& text, int64_t limit, bool from_right) {
  std::vector<MarkedText> parts;
  std::vector<size_t> starts = character_starts(text.bytes());
  auto blank = [&](size_t character) {
    Utf8Step step = utf8_step(std::string_view(text.bytes()).substr(starts[character]));
    return step.valid && is_python_space(step.code_point);
  };
  size_t count = starts.size() - 1;
  if (!from_right) {
    for (size_t at = 0;;) {
      while (at < count && blank(at)) ++at;
      if (at == count) return parts;
      size_t begin = at;
      if (limit >= 0 && parts.size() == static_cast<size_t>(limit)) {
        parts.push_back(text.part(starts[begin], text.size()));
        return parts;
      }
      while (at < count && !blank(at)) ++at;
      parts.push_back(text.part(starts[begin], starts[at]));
    }
  }
  for (size_t at = count;;) {
    while (at > 0 && blank(at - 1)) --at;
    if (at == 0) break;
    size_t end = at;
    if (limit >= 0 && parts.size() == static_cast<size_t>(limit)) {
      parts.push_back(text.part(0, starts[end]));
      break;
    }
    while (at > 0 && !blank(at - 1)) --at;
    parts.push_back(text.part(starts[at], starts[end]));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_at(const MarkedText& text, const std::string& separator, int64_t limit,
                                 bool from_right) {
  if (separator.empty()) throw RenderError{"the separator of a split is empty"};
  std::vector<size_t> cuts;
  const std::string& bytes = text.bytes();
  auto full = [&] { return limit >= 0 && cuts.size() >= static_cast<size_t>(limit); };
  if (from_right) {
    for (size_t end = bytes.size(); !full() && end >= separator.size();) {
      size_t found = bytes.rfind(separator, end - separator.size());
      if (found == std::string::npos) break;
      cuts.insert(cuts.begin(), found);
      end = found;
    }
  } else {
    for (size_t at = 0; !full();) {
      size_t found = bytes.find(separator, at);
      if (found == std::string::npos) break;
      cuts.push_back(found);
      at = found + separator.size();
    }
  }
  std::vector<MarkedText> parts;
  size_t begin = 0;
  for (size_t cut : cuts) {
    parts.push_back(text.part(begin, cut));
    begin = cut + separator.size();
  }
  parts.push_back(text.part(begin, bytes.size()));
  return parts;
}

Value split(const MarkedText& text, const Arguments& arguments, bool from_right, Budget& budget) {
  arguments.expect({"sep", "maxsplit"});
  const Value* separator = arguments.find(0, "sep");
  int64_t limit = integer_argument(arguments, 1, "maxsplit", -1);
  std::vector<MarkedText> parts;
  if (separator == nullptr || separator->is_none()) {
    parts = split_at_blanks(text, limit, from_right);
  } else {
    parts = split_at(text, text_argument(arguments, 0, "sep").bytes(), limit, from_right);
  }
  budget.bytes(text.size() + parts.size() * (sizeof(Value) + sizeof(MarkedText)));
  return make_list(to_values(std::move(parts)));
}

Value partition(const MarkedText& text, const Arguments& arguments, bool from_right) {
  const MarkedText& separator = text_argument(arguments, 0, "sep");
  if (separator.empty()) throw RenderError{"the separator of a partition is empty"};
  size_t found = from_right ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  std::vector<Value> parts;
  if (found != std::string::npos) {
    parts = {text.part(0, found), separator, text.part(found + separator.size(), text.size())};
  } else if (from_right) {
    parts = {MarkedText(), MarkedText(), text};
  } else {
    parts = {text, MarkedText(), MarkedText()};
  }
  return make_list(std::move(parts), ListKind::kTuple);
}

// startswith and endswith: one text or a tuple of them.
Value has_affix(const MarkedText& text, const Arguments& arguments, bool at_start) {
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    throw RenderError{"startswith and endswith are supported with one argument"};
  auto matches = [&](const Value& affix) {
    if (affix.text() == nullptr)
      throw RenderError{fmt::format("startswith and endswith need text, found {}", type_name(affix))};
    const std::string& bytes = affix.text()->bytes();
    return at_start ? text.bytes().starts_with(bytes) : text.bytes().ends_with(bytes);
  };
  const Value& affixes = arguments.positional[0];
  const List* list = affixes.list();
  if (list == nullptr || list->kind != ListKind::kTuple) return matches(affixes);
  return std::any_of(list->items.begin(), list->items.end(), matches);
}

Value find_text(const MarkedText& text, const Arguments& arguments, bool from_right, bool must) {
  arguments.expect({"sub"});
  const std::string& part = text_argument(arguments, 0, "sub").bytes();
  size_t found = from_right ? text.bytes().rfind(part) : text.bytes().find(part);
  if (found != std::string::npos)
    return static_cast<int64_t>(count_characters(std::string_view(text.bytes()).substr(0, found)));
  if (must) throw RenderError{"the text was not found"};
  return int64_t{-1};
}

Value count_text(const MarkedText& text, const Arguments& arguments) {
  arguments.expect({"sub"});
  const std::string& part = text_argument(arguments, 0, "sub").bytes();
  if (part.empty()) return static_cast<int64_t>(count_characters(text.bytes()) + 1);
  int64_t count = 0;
  for (size_t at = text.bytes().find(part); at != std::string::npos;
       at = text.bytes().find(part, at + part.size()))
    ++count;
  return count;
}

// ljust, rjust, center, zfill.
Value padded(const MarkedText& text, std::string_view name, const Arguments& arguments, Budget& budget) {
  arguments.expect({"width", "fillchar"});
  if (arguments.positional.empty()) throw RenderError{"the argument 'width' is missing"};
  int64_t missing =
      integer_argument(arguments, 0, "width", 0) - static_cast<int64_t>(count_characters(text.bytes()));
  if (missing <= 0) return text;
  MarkedText fill(name == "zfill" ? "0" : " ", kTemplateSource);
  if (arguments.positional.size() > 1) fill = text_argument(arguments, 1, "fillchar");
  if (count_characters(fill.bytes()) != 1) throw RenderError{"the argument 'fillchar' must be one character"};
  auto count = static_cast<size_t>(missing);
  budget.bytes(count * fill.size());
  // Python's center puts the odd one at the left of text of even, wide total width.
  auto width = count + count_characters(text.bytes());
  size_t left = name == "ljust" ? 0 : name == "center" ? count / 2 + (count & width & 1) : count;
  MarkedText result;
  size_t sign = name == "zfill" && (text.bytes().starts_with('-') || text.bytes().starts_with('+')) ? 1 : 0;
  result.append_part(text, 0, sign);
  for (size_t i = 0; i < left; ++i) result.append(fill);
  result.append_part(text, sign, text.size());
  for (size_t i = left; i < count; ++i) result.append(fill);
  return result;
}

bool is_title(const MarkedText& text) {
  bool cased = false;
  bool after_cased = false;
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8_step(std::string_view(text.bytes()).substr(at));
    at += step.size;
    bool up = step.valid && is_upper(step.code_point);
    bool low = step.valid && is_lower(step.code_point);
    if ((up && after_cased) || (low && !after_cased)) return false;
    after_cased = up || low;
    cased = cased || after_cased;
  }
  return cased;
}

MarkedText without_affix(const MarkedText& text, const MarkedText& affix, bool prefix) {
  bool has = prefix ? text.bytes().starts_with(affix.bytes()) : text.bytes().ends_with(affix.bytes());
  if (!has) return text;
  return prefix ? text.part(affix.size(), text.size()) : text.part(0, text.size() - affix.size());
}

using TextMethod = Value (*)(const MarkedText& text, const Arguments& arguments, Budget& budget);

template <bool left, bool right>
Value strip_method(const MarkedText& text, const Arguments& arguments, Budget&) {
  arguments.expect({"chars"});
  return strip(text, arguments.find(0, "chars"), left, right);
}

struct NamedTextMethod {
  std::string_view name;
  TextMethod call;
};

constexpr NamedTextMethod kTextMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"split", [](const MarkedText& t, const Arguments& a, Budget& b) { return split(t, a, false, b); }},
    {"rsplit", [](const MarkedText& t, const Arguments& a, Budget& b) { return split(t, a, true, b); }},
    {"splitlines",
     [](const MarkedText& t, const Arguments& a, Budget& b) -> Value {
       a.expect({"keepends"});
       const Value* keep = a.find(0, "keepends");
       b.bytes(t.size());
       return make_list(to_values(split_lines(t, keep != nullptr && is_truthy(*keep))));
     }},
    {"startswith", [](const MarkedText& t, const Arguments& a, Budget&) { return has_affix(t, a, true); }},
    {"endswith", [](const MarkedText& t, const Arguments& a, Budget&) { return has_affix(t, a, false); }},
    {"replace",
     [](const MarkedText& t, const Arguments& a, Budget& b) -> Value {
       a.expect({"old", "new", "count"});
       return replace(t, text_argument(a, 0, "old"), text_argument(a, 1, "new"),
                      integer_argument(a, 2, "count", -1), b);
     }},
    {"upper",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       a.expect({});
       return upper(t);
     }},
    {"lower",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       a.expect({});
       return lower(t);
     }},
    {"casefold",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       a.expect({});
       return lower(t);
     }},
    {"title",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       a.expect({});
       return title(t, true);
     }},
    {"capitalize",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       a.expect({});
       return capitalize(t);
     }},
    {"swapcase",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       a.expect({});
       return swap_case(t);
     }},
    {"join",
     [](const MarkedText& t, const Arguments& a, Budget& b) -> Value {
       a.expect({"iterable"});
       if (a.positional.empty()) throw RenderError{"the argument 'iterable' is missing"};
       std::vector<Value> items = elements(a.positional[0], b);
       for (const Value& item : items) {
         if (item.text() == nullptr)
           throw RenderError{fmt::format("join needs text, found {}", type_name(item))};
       }
       return join(t, items, b);
     }},
    {"find", [](const MarkedText& t, const Arguments& a, Budget&) { return find_text(t, a, false, false); }},
    {"rfind", [](const MarkedText& t, const Arguments& a, Budget&) { return find_text(t, a, true, false); }},
    {"index", [](const MarkedText& t, const Arguments& a, Budget&) { return find_text(t, a, false, true); }},
    {"rindex", [](const MarkedText& t, const Arguments& a, Budget&) { return find_text(t, a, true, true); }},
    {"count", [](const MarkedText& t, const Arguments& a, Budget&) { return count_text(t, a); }},
    {"partition", [](const MarkedText& t, const Arguments& a, Budget&) { return partition(t, a, false); }},
    {"rpartition", [](const MarkedText& t, const Arguments& a, Budget&) { return partition(t, a, true); }},
    {"removeprefix",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       return without_affix(t, text_argument(a, 0, "prefix"), true);
     }},
    {"removesuffix",
     [](const MarkedText& t, const Arguments& a, Budget&) -> Value {
       return without_affix(t, text_argument(a, 0, "suffix"), false);
     }},
    {"ljust", [](const MarkedText& t, const Arguments& a, Budget& b) { return padded(t, "ljust", a, b); }},
    {"rjust", [](const MarkedText& t, const Arguments& a, Budget& b) { return padded(t, "rjust", a, b); }},
    {"center", [](const MarkedText& t, const Arguments& a, Budget& b) { return padded(t, "center", a, b); }},
    {"zfill", [](const MarkedText& t, const Arguments& a, Budget& b) { return padded(t, "zfill", a, b); }},
    {"isalpha",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value {
       return all_characters(t, is_alphabetic);
     }},
    {"isdigit",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value { return all_characters(t, is_digit); }},
    {"isnumeric",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value { return all_characters(t, is_numeric); }},
    {"isalnum",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value {
       return all_characters(t, [](char32_t c) { return is_alphabetic(c) || is_numeric(c); });
     }},
    {"isspace",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value {
       return all_characters(t, is_python_space);
     }},
    {"isupper",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value {
       return has_only_case(t, is_upper, is_lower);
     }},
    {"islower",
     [](const MarkedText& t, const Arguments&, Budget&) -> Value {
       return has_only_case(t, is_lower, is_upper);
     }},
    {"istitle", [](const MarkedText& t, const Arguments&, Budget&) -> Value { return is_title(t); }},
};

constexpr std::string_view kRefusedTextMethods[] = {"encode",    "format",    "format_map",   "expandtabs",
                                                    "isascii",   "isdecimal", "isidentifier", "isprintable",
                                                    "translate", "maketrans"};
constexpr std::string_view kListMethods[] = {"append", "clear", "copy",   "count",   "extend", "index",
                                             "insert", "pop",   "remove", "reverse", "sort"};
constexpr std::string_view kDictMethods[] = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                             "pop",   "popitem", "setdefault", "update", "values"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const NamedTextMethod* find_text_method(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                   [&](const NamedTextMethod& method) { return method.name == name; });
  return found == std::end(kTextMethods) ? nullptr : found;
}

Value call_list_method(const List& list, std::string_view name, const Arguments& arguments) {
  bool counts = name == "count";
  if (!counts && name != "index")
    throw RenderError{fmt::format("'{}' would change a list, which templates may not", name)};
  if (arguments.positional.size() != 1) throw RenderError{fmt::format("'{}' takes one argument", name)};
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (!is_equal(list.items[i], arguments.positional[0])) continue;
    if (!counts) return static_cast<int64_t>(i);
    ++count;
  }
  if (!counts) throw RenderError{"the value is not in the list"};
  return count;
}

Value call_dict_method(const Value& value, std::string_view name, const Arguments& arguments,
                       Budget& budget) {
  const Dict& dict = *value.dict();
  if (name == "get") {
    if (arguments.positional.empty() || arguments.positional.size() > 2 || !arguments.named.empty())
      throw RenderError{"'get' takes a key and perhaps a default"};
    budget.step(dict.members.size() / 8);
    if (const Value* member = dict.find(arguments.positional[0])) return *member;
    return arguments.positional.size() == 2 ? arguments.positional[1] : Value(None{});
  }
  arguments.expect({});
  if (name == "copy") return value;
  if (name != "items" && name != "keys" && name != "values")
    throw RenderError{fmt::format("'{}' would change a dict, which templates may not", name)};
  budget.bytes(dict.members.size() * 3 * sizeof(Value));
  std::vector<Value> items;
  for (const auto& [key, member] : dict.members) {
    if (name == "items") {
      items.emplace_back(make_list({key, member}, ListKind::kTuple, dict.source));
    } else {
      items.push_back(name == "keys" ? key : member);
    }
  }
  return make_list(std::move(items), ListKind::kList, dict.source);
}

}  // namespace

bool is_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr)
    return find_text_method(name) != nullptr || is_among(kRefusedTextMethods, name);
  if (const List* list = value.list())
    return list->kind != ListKind::kGenerator && is_among(kListMethods, name);
  return value.dict() != nullptr && is_among(kDictMethods, name);
}

Value make_method(const Value& value, std::string_view name) {
  Callable callable{.kind = CallableKind::kMethod, .name = std::string(name), .self = value};
  return std::make_shared<const Callable>(std::move(callable));
}

Value call_method(const Value& value, std::string_view name, const Arguments& arguments, Budget& budget) {
  if (const MarkedText* text = value.text()) {
    const NamedTextMethod* method = find_text_method(name);
    if (method == nullptr) throw RenderError{fmt::format("the method '{}' of text is not supported", name)};
    budget.step(text->size() / 64);
    budget.bytes(text->size());
    return method->call(*text, arguments, budget);
  }
  if (const List* list = value.list()) return call_list_method(*list, name, arguments);
  return call_dict_method(value, name, arguments, budget);
}

}  // namespace stoker::jinja
