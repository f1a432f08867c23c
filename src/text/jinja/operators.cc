#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/jinja/methods.h"

namespace stoker::jinja {
namespace {

[[noreturn]] void refuse(std::string_view operation, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) refuse_undefined(*value->undefined());
  }
  throw RenderError{
      fmt::format("{} is not defined for {} and {}", operation, type_name(left), type_name(right))};
}

Value checked(bool overflow, int64_t result) {
  if (overflow) throw RenderError{"an integer does not fit into 64 bits"};
  return result;
}

Value add_text(const MarkedText& left, const MarkedText& right, Budget& budget) {
  bool markup = left.is_markup() || right.is_markup();
  budget.bytes(left.size() + right.size());
  MarkedText sum;
  sum.reserve(left.size() + right.size());
  sum.append(markup && !left.is_markup() ? escaped(left) : left);
  sum.append(markup && !right.is_markup() ? escaped(right) : right);
  sum.set_markup(markup);
  return sum;
}

Value add_lists(const List& left, const List& right, Budget& budget) {
  budget.bytes((left.items.size() + right.items.size()) * sizeof(Value));
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return make_list(std::move(items), left.kind, left.source);
}

Value repeat(const Value& value, int64_t count, Budget& budget) {
  size_t times = static_cast<size_t>(std::max<int64_t>(count, 0));
  size_t size = value.text() != nullptr ? value.text()->size() : value.list()->items.size() * sizeof(Value);
  if (size != 0 && times > (size_t{1} << 40) / size) throw RenderError{"the template makes too much text"};
  budget.bytes(times * size);
  if (const MarkedText* text = value.text()) {
    MarkedText result;
    if (size == 0) times = 0;
    for (size_t i = 0; i < times; ++i) result.append(*text);
    result.set_markup(text->is_markup());
    return result;
  }
  std::vector<Value> items;
  if (size == 0) times = 0;
  for (size_t i = 0; i < times; ++i)
    items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  return make_list(std::move(items), value.list()->kind, value.list()->source);
}

int64_t floor_divide(int64_t left, int64_t right) {
  int64_t quotient = left / right;
  return (left % right != 0 && (left < 0) != (right < 0)) ? quotient - 1 : quotient;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw RenderError{"division by zero"};
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  bool overflow = false;
  if (base == 1 || base == -1) exponent %= 2;
  if (base == 0 && exponent > 0) return int64_t{0};
  for (int64_t i = 0; i < exponent && !overflow; ++i)
    overflow = __builtin_mul_overflow(result, base, &result);
  return checked(overflow, result);
}

Value integer_operation(Operation operation, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (operation) {
    case Operation::kAdd:
      return checked(__builtin_add_overflow(left, right, &result), result);
    case Operation::kSubtract:
      return checked(__builtin_sub_overflow(left, right, &result), result);
    case Operation::kMultiply:
      return checked(__builtin_mul_overflow(left, right, &result), result);
    case Operation::kPower:
      return integer_power(left, right);
    default:
      break;
  }
  if (right == 0) throw RenderError{"division by zero"};
  if (operation == Operation::kDivide) return static_cast<double>(left) / static_cast<double>(right);
  if (right == -1) {
    if (operation == Operation::kModulo) return int64_t{0};
    return checked(__builtin_sub_overflow(int64_t{0}, left, &result), result);
  }
  int64_t quotient = floor_divide(left, right);
  return operation == Operation::kFloorDivide ? Value(quotient) : Value(left - quotient * right);
}

Value real_operation(Operation operation, double left, double right) {
  switch (operation) {
    case Operation::kAdd:
      return left + right;
    case Operation::kSubtract:
      return left - right;
    case Operation::kMultiply:
      return left * right;
    case Operation::kPower:
      return std::pow(left, right);
    default:
      break;
  }
  if (right == 0) throw RenderError{"division by zero"};
  if (operation == Operation::kDivide) return left / right;
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (operation == Operation::kModulo) return remainder;
  return std::floor((left - remainder) / right + 0.5);
}

const char* symbol(Operation operation) {
  switch (operation) {
    case Operation::kAdd:
      return "'+'";
    case Operation::kSubtract:
      return "'-'";
    case Operation::kMultiply:
      return "'*'";
    case Operation::kDivide:
      return "'/'";
    case Operation::kFloorDivide:
      return "'//'";
    case Operation::kModulo:
      return "'%'";
    default:
      return "'**'";
  }
}

// Positions of a slice as Python's slice.indices() gives them.
std::vector<size_t> slice_positions(size_t size, const Value& begin, const Value& end,
                                    const Value& step_value, Budget& budget) {
  auto part = [](const Value& value, int64_t absent) {
    if (value.is_undefined() || value.is_none()) return absent;
    int64_t number = 0;
    if (!to_integer(value, number))
      throw RenderError{fmt::format("a slice needs integers, found {}", type_name(value))};
    return number;
  };
  auto length = static_cast<int64_t>(size);
  int64_t step = part(step_value, 1);
  if (step == 0) throw RenderError{"the step of a slice is zero"};
  int64_t lowest = step > 0 ? 0 : -1;
  int64_t highest = step > 0 ? length : length - 1;
  auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_undefined() || value.is_none()) return absent;
    int64_t position = part(value, absent);
    return position < 0 ? std::max(position + length, lowest) : std::min(position, highest);
  };
  int64_t first = bound(begin, step > 0 ? lowest : highest);
  int64_t last = bound(end, step > 0 ? highest : lowest);
  std::vector<size_t> positions;
  for (int64_t at = first; step > 0 ? at < last : at > last;) {
    positions.push_back(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  budget.bytes(positions.size() * sizeof(Value));
  budget.step(positions.size() / 8);
  return positions;
}

Value undefined(const std::string* name) { return Undefined{name}; }

Value member_of_sequence(const Value& value, int64_t index, const std::string* name, Budget& budget) {
  if (const List* list = value.list()) {
    auto size = static_cast<int64_t>(list->items.size());
    if (index < 0) index += size;
    if (index < 0 || index >= size || list->kind == ListKind::kGenerator) return undefined(name);
    return list->items[static_cast<size_t>(index)];
  }
  const MarkedText& text = *value.text();
  budget.step(text.size() / 64);
  std::vector<size_t> starts = character_starts(text.bytes());
  auto size = static_cast<int64_t>(starts.size()) - 1;
  if (index < 0) index += size;
  if (index < 0 || index >= size) return undefined(name);
  return text.part(starts[static_cast<size_t>(index)], starts[static_cast<size_t>(index) + 1]);
}

}  // namespace

void Arguments::expect(std::initializer_list<std::string_view> names) const {
  if (positional.size() > names.size())
    throw RenderError{fmt::format("{} arguments were given where at most {} are expected", positional.size(),
                                  names.size())};
  for (const auto& [name, value] : named) {
    const auto* known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) throw RenderError{fmt::format("there is no argument '{}'", name)};
    if (static_cast<size_t>(known - names.begin()) < positional.size())
      throw RenderError{fmt::format("the argument '{}' was given twice", name)};
  }
}

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [given, value] : named) {
    if (given == name) return &value;
  }
  return nullptr;
}

void refuse_undefined(const Undefined& undefined) {
  throw RenderError{undefined.name == nullptr ? std::string("a value is undefined")
                                              : fmt::format("'{}' is undefined", *undefined.name)};
}

MarkedText escaped(const MarkedText& text) {
  MarkedText result;
  size_t done = 0;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    const char* escape = nullptr;
    switch (bytes[at]) {
      case '&':
        escape = "&amp;";
        break;
      case '<':
        escape = "&lt;";
        break;
      case '>':
        escape = "&gt;";
        break;
      case '\'':
        escape = "&#39;";
        break;
      case '"':
        escape = "&#34;";
        break;
      default:
        continue;
    }
    result.append_part(text, done, at);
    result.append(escape, text.source_at(at));
    done = at + 1;
  }
  result.append_part(text, done, text.size());
  result.set_markup(true);
  return result;
}

Value binary_operation(Operation operation, const Value& left, const Value& right, Budget& budget) {
  int64_t a = 0;
  int64_t b = 0;
  bool left_integer = to_integer(left, a);
  bool right_integer = to_integer(right, b);
  if (left_integer && right_integer) return integer_operation(operation, a, b);
  if (is_number(left) && is_number(right))
    return real_operation(operation, to_double(left), to_double(right));
  if (operation == Operation::kAdd) {
    if (left.text() != nullptr && right.text() != nullptr)
      return add_text(*left.text(), *right.text(), budget);
    bool same = left.list() != nullptr && right.list() != nullptr &&
                left.list()->kind == right.list()->kind && left.list()->kind != ListKind::kGenerator;
    if (same) return add_lists(*left.list(), *right.list(), budget);
  }
  if (operation == Operation::kMultiply) {
    auto repeats = [](const Value& value) {
      return value.text() != nullptr ||
             (value.list() != nullptr && value.list()->kind != ListKind::kGenerator);
    };
    if (right_integer && repeats(left)) return repeat(left, b, budget);
    if (left_integer && repeats(right)) return repeat(right, a, budget);
  }
  if (operation == Operation::kModulo && left.text() != nullptr)
    throw RenderError{"formatting text with '%' is not supported; join it with '~'"};
  refuse(symbol(operation), left, right);
}

bool comparison(Operation operation, const Value& left, const Value& right, Budget& budget) {
  switch (operation) {
    case Operation::kEqual:
      return is_equal(left, right);
    case Operation::kNotEqual:
      return !is_equal(left, right);
    case Operation::kIn:
      return contains(right, left, budget);
    case Operation::kNotIn:
      return !contains(right, left, budget);
    default:
      break;
  }
  if (left.is_undefined() || right.is_undefined()) refuse("ordering", left, right);
  switch (operation) {
    case Operation::kLess:
      return is_less(left, right);
    case Operation::kGreater:
      return is_less(right, left);
    case Operation::kLessOrEqual:
      return is_less(left, right) || is_equal(left, right);
    default:
      return is_less(right, left) || is_equal(left, right);
  }
}

Value negative(const Value& value) {
  int64_t integer = 0;
  if (to_integer(value, integer)) return integer_operation(Operation::kSubtract, 0, integer);
  if (value.is_double()) return -value.real();
  refuse("'-'", value, value);
}

Value positive(const Value& value) {
  int64_t integer = 0;
  if (to_integer(value, integer)) return integer;
  if (value.is_double()) return value;
  refuse("'+'", value, value);
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_undefined()) return false;
  if (const List* list = container.list()) {
    budget.step(list->items.size());
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& element) { return is_equal(element, item); });
  }
  if (const Dict* dict = container.dict()) {
    if (item.is_list() || item.is_dict())
      throw RenderError{fmt::format("a {} cannot be a key", type_name(item))};
    budget.step(dict->members.size() / 8);
    return dict->find(item) != nullptr;
  }
  if (container.text() != nullptr && item.text() != nullptr) {
    budget.step(container.text()->size() / 256);
    return container.text()->bytes().find(item.text()->bytes()) != std::string::npos;
  }
  refuse("'in'", item, container);
}

Value attribute(const Value& value, std::string_view name, const std::string* name_in_template,
                Budget& budget) {
  // The sandbox shows nothing of Python's insides.
  if (name.starts_with("__")) return undefined(name_in_template);
  if (const Undefined* missing = value.undefined()) refuse_undefined(*missing);
  if (Namespace* name_space = value.name_space()) {
    for (const auto& [member, content] : name_space->members) {
      if (member == name) return content;
    }
    return undefined(name_in_template);
  }
  if (const LoopState* loop = value.loop()) return loop->attribute(name, name_in_template);
  if (is_method(value, name)) return make_method(value, name);
  if (const Dict* dict = value.dict()) {
    budget.step(dict->members.size() / 8);
    if (const Value* member = dict->find(name)) return *member;
  }
  return undefined(name_in_template);
}

Value subscript(const Value& value, const Value& key, const std::string* name_in_template, Budget& budget) {
  if (const Undefined* missing = value.undefined()) refuse_undefined(*missing);
  if (const Dict* dict = value.dict()) {
    budget.step(dict->members.size() / 8);
    if (const Value* member = dict->find(key)) return *member;
  }
  int64_t index = 0;
  if ((value.list() != nullptr || value.text() != nullptr) && to_integer(key, index))
    return member_of_sequence(value, index, name_in_template, budget);
  if (const MarkedText* name = key.text(); name != nullptr && !value.is_none())
    return attribute(value, name->bytes(), name_in_template, budget);
  return undefined(name_in_template);
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget) {
  if (const Undefined* missing = value.undefined()) refuse_undefined(*missing);
  if (const List* list = value.list(); list != nullptr && list->kind != ListKind::kGenerator) {
    std::vector<Value> items;
    for (size_t position : slice_positions(list->items.size(), begin, end, step, budget))
      items.push_back(list->items[position]);
    return make_list(std::move(items), list->kind, list->source);
  }
  const MarkedText* text = value.text();
  if (text == nullptr) return Undefined{};
  budget.bytes(text->size());
  std::vector<size_t> starts = character_starts(text->bytes());
  std::vector<size_t> positions = slice_positions(starts.size() - 1, begin, end, step, budget);
  MarkedText result;
  for (size_t position : positions) result.append_part(*text, starts[position], starts[position + 1]);
  result.set_markup(text->is_markup());
  return result;
}

std::vector<Value> elements(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const List* list = value.list()) {
    budget.bytes(list->items.size() * sizeof(Value));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    budget.bytes(dict->members.size() * sizeof(Value));
    for (const auto& member : dict->members) items.push_back(member.first);
    return items;
  }
  if (const MarkedText* text = value.text()) {
    std::vector<size_t> starts = character_starts(text->bytes());
    budget.bytes(starts.size() * (sizeof(Value) + sizeof(MarkedText)));
    for (size_t i = 0; i + 1 < starts.size(); ++i) items.emplace_back(text->part(starts[i], starts[i + 1]));
    return items;
  }
  throw RenderError{fmt::format("a {} cannot be iterated over", type_name(value))};
}

}  // namespace stoker::jinja
