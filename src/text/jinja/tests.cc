#include "text/jinja/tests.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/callable.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace stoker::jinja {
namespace {

using Test = bool (*)(const Value& value, const Arguments& arguments, Budget& budget);

struct NamedTest {
  std::string_view name;
  size_t operands;
  Test holds;
};

template <Operation operation>
bool compares(const Value& value, const Arguments& arguments, Budget& budget) {
  return comparison(operation, value, arguments.positional[0], budget);
}

bool divides(const Value& value, const Value& divisor, Budget& budget) {
  Value remainder = binary_operation(Operation::kModulo, value, divisor, budget);
  return is_number(remainder) && to_double(remainder) == 0;
}

bool is_sequence(const Value& value) {
  const List* list = value.list();
  return value.is_text() || value.is_dict() || value.is_undefined() ||
         (list != nullptr && list->kind != ListKind::kGenerator);
}

bool is_same(const Value& left, const Value& right) {
  if (left.text() != nullptr) return left.text() == right.text();
  if (left.list() != nullptr) return left.list() == right.list();
  if (left.dict() != nullptr) return left.dict() == right.dict();
  return std::string_view(type_name(left)) == type_name(right) && is_equal(left, right);
}

// islower() and isupper() of what str() gives.
bool has_case(const Value& value, std::string_view method, Budget& budget) {
  return is_truthy(call_method(Value(to_text(value)), method, {}, budget));
}

bool is_known(const Value& name, int (*find)(std::string_view)) {
  return name.text() != nullptr && find(name.text()->bytes()) >= 0;
}

constexpr NamedTest kTests[] = {
    {"defined", 0, [](const Value& v, const Arguments&, Budget&) { return !v.is_undefined(); }},
    {"undefined", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_undefined(); }},
    {"none", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_none(); }},
    {"boolean", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_bool(); }},
    {"true", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_bool() && v.boolean(); }},
    {"false", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_bool() && !v.boolean(); }},
    {"integer", 0,
     [](const Value& v, const Arguments&, Budget&) { return v.is_integer() || v.big_integer() != nullptr; }},
    {"float", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_double(); }},
    {"number", 0,
     [](const Value& v, const Arguments&, Budget&) { return is_number(v) || v.big_integer() != nullptr; }},
    {"string", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_text(); }},
    {"mapping", 0, [](const Value& v, const Arguments&, Budget&) { return v.is_dict(); }},
    {"iterable", 0,
     [](const Value& v, const Arguments&, Budget&) {
       return v.is_text() || v.is_list() || v.is_dict() || v.is_undefined() || v.loop() != nullptr;
     }},
    {"sequence", 0, [](const Value& v, const Arguments&, Budget&) { return is_sequence(v); }},
    {"callable", 0,
     [](const Value& v, const Arguments&, Budget&) { return v.callable() != nullptr || v.is_undefined(); }},
    {"escaped", 0,
     [](const Value& v, const Arguments&, Budget&) { return v.text() != nullptr && v.text()->is_markup(); }},
    {"lower", 0, [](const Value& v, const Arguments&, Budget& b) { return has_case(v, "islower", b); }},
    {"upper", 0, [](const Value& v, const Arguments&, Budget& b) { return has_case(v, "isupper", b); }},
    {"odd", 0, [](const Value& v, const Arguments&, Budget& b) { return !divides(v, Value(2), b); }},
    {"even", 0, [](const Value& v, const Arguments&, Budget& b) { return divides(v, Value(2), b); }},
    {"divisibleby", 1,
     [](const Value& v, const Arguments& a, Budget& b) { return divides(v, a.positional[0], b); }},
    {"sameas", 1, [](const Value& v, const Arguments& a, Budget&) { return is_same(v, a.positional[0]); }},
    {"filter", 0, [](const Value& v, const Arguments&, Budget&) { return is_known(v, find_filter); }},
    {"test", 0, [](const Value& v, const Arguments&, Budget&) { return is_known(v, find_test); }},
    {"in", 1, compares<Operation::kIn>},
    {"==", 1, compares<Operation::kEqual>},
    {"eq", 1, compares<Operation::kEqual>},
    {"equalto", 1, compares<Operation::kEqual>},
    {"!=", 1, compares<Operation::kNotEqual>},
    {"ne", 1, compares<Operation::kNotEqual>},
    {"<", 1, compares<Operation::kLess>},
    {"lt", 1, compares<Operation::kLess>},
    {"lessthan", 1, compares<Operation::kLess>},
    {"<=", 1, compares<Operation::kLessOrEqual>},
    {"le", 1, compares<Operation::kLessOrEqual>},
    {">", 1, compares<Operation::kGreater>},
    {"gt", 1, compares<Operation::kGreater>},
    {"greaterthan", 1, compares<Operation::kGreater>},
    {">=", 1, compares<Operation::kGreaterOrEqual>},
    {"ge", 1, compares<Operation::kGreaterOrEqual>},
};

}  // namespace

int find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [&](const NamedTest& test) { return test.name == name; });
  return found == std::end(kTests) ? -1 : static_cast<int>(found - kTests);
}

bool apply_test(int test, const Value& value, const Arguments& arguments, Budget& budget) {
  const NamedTest& named = kTests[test];
  budget.step();
  if (arguments.positional.size() != named.operands || !arguments.named.empty())
    throw RenderError{fmt::format("the test '{}' takes {} operands", named.name, named.operands)};
  return named.holds(value, arguments, budget);
}

}  // namespace stoker::jinja
