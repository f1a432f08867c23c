#include "text/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/utf8.h"
#include "text/jinja/characters.h"
#include "text/json_text.h"

namespace stoker::jinja {
namespace {

bool holds_callable(const Value& value) {
  if (const List* list = value.list()) return list->holds_callable;
  if (const Dict* dict = value.dict()) return dict->holds_callable;
  return value.callable() != nullptr || value.loop() != nullptr;
}

int depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

void check_depth(int depth) {
  if (depth > kMaxDepth) throw RenderError{"lists and dicts are nested more than 200 levels deep"};
}

const std::pair<Value, Value>* find_member(const std::vector<std::pair<Value, Value>>& members,
                                           const Value& key) {
  for (const auto& member : members) {
    if (is_equal(member.first, key)) return &member;
  }
  return nullptr;
}

// Keeps the first place and the last value of each key.
void merge_duplicates(std::vector<std::pair<Value, Value>>& members) {
  std::unordered_map<std::string_view, size_t> places;
  std::vector<std::pair<Value, Value>> merged;
  merged.reserve(members.size());
  for (auto& member : members) {
    size_t place = merged.size();
    if (const MarkedText* name = member.first.text()) {
      place = places.emplace(name->bytes(), place).first->second;
    } else if (const auto* earlier = find_member(merged, member.first)) {
      place = static_cast<size_t>(earlier - merged.data());
    }
    if (place == merged.size()) {
      merged.push_back(std::move(member));
    } else {
      merged[place].second = std::move(member.second);
    }
  }
  members = std::move(merged);
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return python_json(Json(value));
}

// Python's repr of text: single quotes unless there are only those inside.
void append_text_repr(MarkedText& out, const MarkedText& text) {
  const std::string& bytes = text.bytes();
  bool single = bytes.find('\'') == std::string::npos || bytes.find('"') != std::string::npos;
  std::string_view quote = single ? "'" : "\"";
  out.append(quote, text.source_at(0));
  for (size_t at = 0; at < bytes.size();) {
    Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    Source source = text.source_at(at);
    std::string_view raw = std::string_view(bytes).substr(at, step.size);
    at += step.size;
    char32_t c = step.code_point;
    if (!step.valid) {
      out.append(raw, source);
    } else if (c == '\\' || (single && c == '\'')) {
      out.append("\\" + std::string(raw), source);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", source);
    } else if (is_printable(c)) {
      out.append(raw, source);
    } else {
      auto code = static_cast<uint32_t>(c);
      out.append(code < 0x100     ? fmt::format("\\x{:02x}", code)
                 : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                  : fmt::format("\\U{:08x}", code),
                 source);
    }
  }
  out.append(quote, text.source_at(text.size()));
}

void append_repr(MarkedText& out, const Value& value);

void append_list_repr(MarkedText& out, const List& list) {
  if (list.kind == ListKind::kGenerator)
    throw RenderError{"a lazy sequence cannot be printed; pass it through 'list' first"};
  bool tuple = list.kind == ListKind::kTuple;
  out.append(tuple ? "(" : "[", list.source);
  bool first = true;
  for (const Value& item : list.items) {
    if (!first) out.append(", ", list.source);
    first = false;
    append_repr(out, item);
  }
  if (tuple && list.items.size() == 1) out.append(",", list.source);
  out.append(tuple ? ")" : "]", list.source);
}

void append_repr(MarkedText& out, const Value& value) {
  if (const MarkedText* text = value.text()) {
    if (text->is_markup()) out.append("Markup(", kTemplateSource);
    append_text_repr(out, *text);
    if (text->is_markup()) out.append(")", kTemplateSource);
  } else if (const List* list = value.list()) {
    append_list_repr(out, *list);
  } else if (const Dict* dict = value.dict()) {
    out.append("{", dict->source);
    bool first = true;
    for (const auto& [key, member] : dict->members) {
      if (!first) out.append(", ", dict->source);
      first = false;
      append_repr(out, key);
      out.append(": ", dict->source);
      append_repr(out, member);
    }
    out.append("}", dict->source);
  } else if (value.is_undefined()) {
    out.append("Undefined", kTemplateSource);
  } else {
    out.append(to_text(value));
  }
}

bool lists_equal(const List& left, const List& right) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  return std::equal(left.items.begin(), left.items.end(), right.items.begin(), is_equal);
}

bool dicts_equal(const Dict& left, const Dict& right) {
  if (left.members.size() != right.members.size()) return false;
  return std::all_of(left.members.begin(), left.members.end(), [&](const auto& member) {
    const Value* other = right.find(member.first);
    return other != nullptr && is_equal(member.second, *other);
  });
}

}  // namespace

const Value* Dict::find(const Value& key) const {
  const auto* member = find_member(members, key);
  return member == nullptr ? nullptr : &member->second;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (const MarkedText* text = name.text(); text != nullptr && text->bytes() == key) return &value;
  }
  return nullptr;
}

ListPtr make_list(std::vector<Value> items, ListKind kind, Source source) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) {
    list->depth = std::max(list->depth, 1 + depth_of(item));
    list->holds_callable = list->holds_callable || holds_callable(item);
  }
  check_depth(list->depth);
  list->items = std::move(items);
  list->kind = kind;
  list->source = source;
  return list;
}

DictPtr make_dict(std::vector<std::pair<Value, Value>> members, Source source, int message) {
  auto dict = std::make_shared<Dict>();
  merge_duplicates(members);
  for (const auto& [key, value] : members) {
    dict->depth = std::max(dict->depth, 1 + depth_of(value));
    dict->holds_callable = dict->holds_callable || holds_callable(value);
  }
  check_depth(dict->depth);
  dict->members = std::move(members);
  dict->source = source;
  dict->message = message;
  return dict;
}

const char* type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_integer() || value.big_integer() != nullptr) return "int";
  if (value.is_double()) return "float";
  if (value.is_text()) return "str";
  if (const List* list = value.list())
    return list->kind == ListKind::kList ? "list" : list->kind == ListKind::kTuple ? "tuple" : "generator";
  if (value.is_dict()) return "dict";
  if (value.name_space() != nullptr) return "Namespace";
  return value.loop() != nullptr ? "LoopContext" : "function";
}

bool is_truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_bool()) return value.boolean();
  if (const int64_t* integer = value.integer()) return *integer != 0;
  if (value.is_double()) return value.real() != 0;
  if (const MarkedText* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return list->kind == ListKind::kGenerator || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->members.empty();
  return true;
}

bool to_integer(const Value& value, int64_t& result) {
  if (value.is_bool()) {
    result = value.boolean() ? 1 : 0;
    return true;
  }
  const int64_t* integer = value.integer();
  if (integer != nullptr) result = *integer;
  return integer != nullptr;
}

bool is_number(const Value& value) { return value.is_bool() || value.is_integer() || value.is_double(); }

double to_double(const Value& value) {
  int64_t integer = 0;
  if (to_integer(value, integer)) return static_cast<double>(integer);
  if (value.is_double()) return value.real();
  throw RenderError{fmt::format("a number was expected, found {}", type_name(value))};
}

bool is_equal(const Value& left, const Value& right) {
  int64_t a = 0;
  int64_t b = 0;
  if (to_integer(left, a) && to_integer(right, b)) return a == b;
  if (is_number(left) && is_number(right)) return to_double(left) == to_double(right);
  if (left.text() != nullptr && right.text() != nullptr) return left.text()->bytes() == right.text()->bytes();
  if (left.list() != nullptr && right.list() != nullptr) return lists_equal(*left.list(), *right.list());
  if (left.dict() != nullptr && right.dict() != nullptr) return dicts_equal(*left.dict(), *right.dict());
  if (left.is_none() && right.is_none()) return true;
  if (left.is_undefined() && right.is_undefined()) return true;
  if (left.big_integer() != nullptr && right.big_integer() != nullptr)
    return *left.big_integer() == *right.big_integer();
  if (left.name_space() != nullptr) return left.name_space() == right.name_space();
  if (left.loop() != nullptr) return left.loop() == right.loop();
  return left.callable() != nullptr && left.callable() == right.callable();
}

bool is_less(const Value& left, const Value& right) {
  int64_t a = 0;
  int64_t b = 0;
  if (to_integer(left, a) && to_integer(right, b)) return a < b;
  if (is_number(left) && is_number(right)) return to_double(left) < to_double(right);
  // UTF-8 sorts as its code points do.
  if (left.text() != nullptr && right.text() != nullptr) return left.text()->bytes() < right.text()->bytes();
  if (left.list() != nullptr && right.list() != nullptr && left.list()->kind == right.list()->kind) {
    const auto& x = left.list()->items;
    const auto& y = right.list()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!is_equal(x[i], y[i])) return is_less(x[i], y[i]);
    }
    return x.size() < y.size();
  }
  throw RenderError{fmt::format("{} and {} cannot be ordered", type_name(left), type_name(right))};
}

MarkedText to_text(const Value& value) {
  if (const MarkedText* text = value.text()) return *text;
  if (value.is_undefined()) return {};
  if (value.is_none()) return {"None", kTemplateSource};
  if (value.is_bool()) return {value.boolean() ? "True" : "False", kTemplateSource};
  if (const int64_t* integer = value.integer()) return {std::to_string(*integer), kTemplateSource};
  if (value.is_double()) return {float_text(value.real()), kTemplateSource};
  if (const BigInteger* big = value.big_integer()) return {big->digits, kTemplateSource};
  if (value.is_list() || value.is_dict()) {
    MarkedText text;
    append_repr(text, value);
    return text;
  }
  throw RenderError{fmt::format("a {} cannot be printed", type_name(value))};
}

MarkedText to_repr(const Value& value) {
  MarkedText text;
  append_repr(text, value);
  return text;
}

}  // namespace stoker::jinja
