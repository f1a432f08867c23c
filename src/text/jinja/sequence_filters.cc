#include "text/jinja/sequence_filters.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace stoker::jinja {
namespace {

bool option(const Arguments& arguments, size_t position, std::string_view name) {
  const Value* value = arguments.find(position, name);
  return value != nullptr && is_truthy(*value);
}

// "a.b.0": jinja2's make_attrgetter. An index or a dotted path of names; where `absent` is given it takes the
// place of what is undefined on the way.
Value dig(const Value& value, const Value& path, Budget& budget, const Value* absent = nullptr) {
  auto step = [&](const Value& holder, const Value& part) {
    Value found = subscript(holder, part, nullptr, budget);
    return found.is_undefined() && absent != nullptr && !absent->is_none() ? *absent : found;
  };
  if (path.text() == nullptr) return step(value, path);
  Value found = value;
  std::string_view rest = path.text()->bytes();
  for (;;) {
    size_t dot = rest.find('.');
    std::string part(rest.substr(0, dot));
    bool digits =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos && part.size() < 10;
    found = step(found, digits ? Value(int64_t{std::stoi(part)}) : Value(part, kTemplateSource));
    if (dot == std::string_view::npos) return found;
    rest.remove_prefix(dot + 1);
  }
}

Value without_case(const Value& value) {
  return value.text() == nullptr ? value : Value(lower(*value.text()));
}

// Sorts `items` by `keys`, stable, as Python's sorted().
void sort_by(std::vector<Value>& items, const std::vector<Value>& keys, bool reverse, Budget& budget) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  budget.step(items.size() * 16);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (is_less(keys[a], keys[b])) return !reverse;
    if (is_less(keys[b], keys[a])) return reverse;
    return a < b;
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (size_t place : order) sorted.push_back(items[place]);
  items = std::move(sorted);
}

Value sorting_key(const Value& item, const Value* attribute, bool case_sensitive, Budget& budget) {
  Value key = attribute == nullptr || attribute->is_none() ? item : dig(item, *attribute, budget);
  return case_sensitive ? key : without_case(key);
}

// The rest of the arguments, after the first `count` positional ones.
Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

int named_index(const Value& name, int (*find)(std::string_view), std::string_view what) {
  int index = name.text() == nullptr ? -1 : find(name.text()->bytes());
  if (index < 0) throw RenderError{fmt::format("there is no {} '{}'", what, to_text(name).bytes())};
  return index;
}

}  // namespace

Value join_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"d", "attribute"});
  std::vector<Value> items = elements(v, b);
  if (const Value* attribute = a.find(1, "attribute"); attribute != nullptr && !attribute->is_none()) {
    for (Value& item : items) item = dig(item, *attribute, b);
  }
  const Value* separator = a.find(0, "d");
  MarkedText between = separator == nullptr ? MarkedText() : to_text(*separator);
  between.set_markup(false);
  return join(between, items, b);
}

Value list_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  const List* list = v.list();
  const Dict* dict = v.dict();
  Source source = list != nullptr ? list->source : dict != nullptr ? dict->source : kTemplateSource;
  return make_list(elements(v, b), ListKind::kList, source);
}

Value first_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  std::vector<Value> items = elements(v, b);
  return items.empty() ? Value() : items.front();
}

Value last_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  std::vector<Value> items = elements(v, b);
  return items.empty() ? Value() : items.back();
}

Value reverse_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({});
  if (v.text() != nullptr) return slice(v, {}, {}, Value(-1), b);
  std::vector<Value> items = elements(v, b);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items), ListKind::kGenerator);
}

Value sort_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = elements(v, b);
  std::vector<Value> keys;
  for (const Value& item : items)
    keys.push_back(sorting_key(item, a.find(2, "attribute"), option(a, 1, "case_sensitive"), b));
  sort_by(items, keys, option(a, 0, "reverse"), b);
  return make_list(std::move(items));
}

Value unique_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"case_sensitive", "attribute"});
  std::vector<Value> kept;
  std::vector<Value> keys;
  for (const Value& item : elements(v, b)) {
    Value key = sorting_key(item, a.find(1, "attribute"), option(a, 0, "case_sensitive"), b);
    b.step(keys.size());
    bool seen =
        std::any_of(keys.begin(), keys.end(), [&](const Value& other) { return is_equal(key, other); });
    if (seen) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return make_list(std::move(kept), ListKind::kGenerator);
}

Value dictsort_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"case_sensitive", "by", "reverse"});
  if (v.dict() == nullptr) throw RenderError{fmt::format("dictsort needs a dict, found {}", type_name(v))};
  const Value* by = a.find(1, "by");
  std::string column = by == nullptr ? "key" : to_text(*by).bytes();
  if (column != "key" && column != "value") throw RenderError{"dictsort sorts by 'key' or 'value'"};
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, member] : v.dict()->members) {
    items.emplace_back(make_list({key, member}, ListKind::kTuple, v.dict()->source));
    keys.push_back(sorting_key(column == "key" ? key : member, nullptr, option(a, 0, "case_sensitive"), b));
  }
  sort_by(items, keys, option(a, 2, "reverse"), b);
  return make_list(std::move(items), ListKind::kList, v.dict()->source);
}

Value sum_filter(const Value& v, const Arguments& a, Budget& b) {
  a.expect({"attribute", "start"});
  const Value* attribute = a.find(0, "attribute");
  const Value* start = a.find(1, "start");
  Value total = start == nullptr ? Value(0) : *start;
  if (total.is_text()) throw RenderError{"sum cannot add text; join it"};
  for (const Value& item : elements(v, b)) {
    b.step();
    Value term = attribute == nullptr || attribute->is_none() ? item : dig(item, *attribute, b);
    total = binary_operation(Operation::kAdd, total, term, b);
  }
  return total;
}

Value extreme_filter(const Value& v, const Arguments& a, Budget& b, bool largest) {
  a.expect({"case_sensitive", "attribute"});
  Value best;
  Value best_key;
  bool first = true;
  for (const Value& item : elements(v, b)) {
    b.step();
    Value key = sorting_key(item, a.find(1, "attribute"), option(a, 0, "case_sensitive"), b);
    if (first || (largest ? is_less(best_key, key) : is_less(key, best_key))) {
      best = item;
      best_key = std::move(key);
    }
    first = false;
  }
  return best;
}

Value map_filter(const Value& v, const Arguments& a, Budget& b) {
  std::vector<Value> items;
  if (!is_truthy(v)) return make_list({}, ListKind::kGenerator);
  if (const Value* path = a.find(SIZE_MAX, "attribute"); path != nullptr && a.positional.empty()) {
    const Value* absent = a.find(SIZE_MAX, "default");
    for (const Value& item : elements(v, b)) {
      b.step();
      items.push_back(dig(item, *path, b, absent));
    }
  } else {
    if (a.positional.empty()) throw RenderError{"map needs the name of a filter"};
    int filter = named_index(a.positional[0], find_filter, "filter");
    Arguments rest = without_first(a, 1);
    for (const Value& item : elements(v, b)) items.push_back(apply_filter(filter, item, rest, b));
  }
  return make_list(std::move(items), ListKind::kGenerator);
}

Value select_filter(const Value& v, const Arguments& a, Budget& b, bool keeps, bool by_attribute) {
  if (!is_truthy(v)) return make_list({}, ListKind::kGenerator);
  size_t skipped = by_attribute ? 1 : 0;
  if (a.positional.size() < skipped) throw RenderError{"the name of an attribute is missing"};
  bool tests = a.positional.size() > skipped;
  int test = tests ? named_index(a.positional[skipped], find_test, "test") : -1;
  Arguments operands = tests ? without_first(a, skipped + 1) : Arguments{};
  std::vector<Value> kept;
  for (const Value& item : elements(v, b)) {
    b.step();
    Value subject = by_attribute ? dig(item, a.positional[0], b) : item;
    bool holds = tests ? apply_test(test, subject, operands, b) : is_truthy(subject);
    if (holds == keeps) kept.push_back(item);
  }
  const List* list = v.list();
  return make_list(std::move(kept), ListKind::kGenerator, list == nullptr ? kTemplateSource : list->source);
}

}  // namespace stoker::jinja
