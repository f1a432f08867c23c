#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/marked_text.h"
#include "text/jinja/scalars.h"

namespace stoker::jinja {

class Value;
struct List;
struct Dict;
struct Namespace;
struct LoopState;
struct Callable;

using TextPtr = std::shared_ptr<const MarkedText>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;

// A value of the template language, with Python's meaning. Cheap to copy; lists, dicts and text are immutable
// and shared. A value must not outlive the template and the render that made it.
class Value {
 public:
  Value() = default;
  Value(None) : value_(None{}) {}
  Value(Undefined undefined) : value_(undefined) {}
  Value(bool value) : value_(value) {}
  Value(int value) : value_(int64_t{value}) {}
  Value(int64_t value) : value_(value) {}
  Value(size_t value) : value_(static_cast<int64_t>(value)) {}
  Value(double value) : value_(value) {}
  Value(BigInteger value) : value_(std::make_shared<const BigInteger>(std::move(value))) {}
  Value(MarkedText text) : value_(std::make_shared<const MarkedText>(std::move(text))) {}
  Value(TextPtr text) : value_(std::move(text)) {}
  Value(std::string text, Source source) : Value(MarkedText(std::move(text), source)) {}
  Value(ListPtr list) : value_(std::move(list)) {}
  Value(DictPtr dict) : value_(std::move(dict)) {}
  Value(Namespace* name_space) : value_(name_space) {}
  Value(const LoopState* loop) : value_(loop) {}
  Value(std::shared_ptr<const Callable> callable) : value_(std::move(callable)) {}
  Value(const char*) = delete;

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_text() const { return std::holds_alternative<TextPtr>(value_); }
  bool is_list() const { return std::holds_alternative<ListPtr>(value_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(value_); }

  const Undefined* undefined() const { return std::get_if<Undefined>(&value_); }
  const BigInteger* big_integer() const {
    const auto* big = std::get_if<std::shared_ptr<const BigInteger>>(&value_);
    return big == nullptr ? nullptr : big->get();
  }
  // Each null when this is of another type.
  const MarkedText* text() const { return pointee<TextPtr>(); }
  const List* list() const { return pointee<ListPtr>(); }
  const Dict* dict() const { return pointee<DictPtr>(); }
  const Callable* callable() const { return pointee<std::shared_ptr<const Callable>>(); }
  Namespace* name_space() const { return direct<Namespace*>(); }
  const LoopState* loop() const { return direct<const LoopState*>(); }
  bool boolean() const { return std::get<bool>(value_); }
  double real() const { return std::get<double>(value_); }
  const TextPtr& shared_text() const { return std::get<TextPtr>(value_); }

  // Booleans and integers as Python's int; null otherwise.
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }

 private:
  template <typename Pointer>
  const typename Pointer::element_type* pointee() const {
    const auto* pointer = std::get_if<Pointer>(&value_);
    return pointer == nullptr ? nullptr : pointer->get();
  }
  template <typename Pointer>
  Pointer direct() const {
    const auto* pointer = std::get_if<Pointer>(&value_);
    return pointer == nullptr ? nullptr : *pointer;
  }

  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const BigInteger>, TextPtr, ListPtr,
               DictPtr, Namespace*, const LoopState*, std::shared_ptr<const Callable>>
      value_;
};

enum class ListKind : uint8_t { kList, kTuple, kGenerator };

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  Source source = kTemplateSource;  // of the brackets and commas that print it
  int depth = 1;                    // levels of lists and dicts
  bool holds_callable = false;      // or a loop: must not outlive its scope
};

// Members in the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> members;
  Source source = kTemplateSource;
  int depth = 1;
  bool holds_callable = false;
  int message = -1;  // this is the conversation's message of that index

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> members;
};

// An error of a render. The position is filled in where it is caught.
struct RenderError {
  std::string message;
  bool raised_by_template = false;  // by raise_exception, with its own words
};

// Levels that lists and dicts may be nested; deeper ones throw RenderError.
constexpr int kMaxDepth = 200;
ListPtr make_list(std::vector<Value> items, ListKind kind = ListKind::kList, Source source = kTemplateSource);
// Later members of the same key take the place of earlier ones, as in Python.
DictPtr make_dict(std::vector<std::pair<Value, Value>> members, Source source = kTemplateSource,
                  int message = -1);

// Python's name of the type: "str", "int", "list".
const char* type_name(const Value& value);
bool is_truthy(const Value& value);
// Python's ==: 1 == 1.0 == True.
bool is_equal(const Value& left, const Value& right);
// Python's < for numbers, text and lists; throws RenderError for other types.
bool is_less(const Value& left, const Value& right);
// A number as a double; throws RenderError when it is none.
double to_double(const Value& value);
bool is_number(const Value& value);  // int, float, bool
// int or bool as int64; null when it is neither.
bool to_integer(const Value& value, int64_t& result);

// Python's str(): what {{ value }} prints. Text keeps its sources.
MarkedText to_text(const Value& value);
// Python's repr().
MarkedText to_repr(const Value& value);

}  // namespace stoker::jinja
