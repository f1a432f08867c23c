#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// A moment for strftime_now; the library reads no clock.
struct CivilTime {
  int year = 2024;
  int month = 7;  // from 1
  int day = 26;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// What a render gives.
struct Rendered {
  // [begin, end) of the text's bytes.
  struct Span {
    size_t begin = 0;
    size_t end = 0;

    bool operator==(const Span&) const = default;
  };
  // Text written while a loop stood at a message of the conversation (Dict::message).
  struct MessageSpan {
    Span bytes;
    int message = 0;
  };

  MarkedText text;
  std::vector<Span> generation;  // of generation blocks
  std::vector<MessageSpan> messages;
};

using Variables = std::vector<std::pair<std::string, Value>>;

// A compiled template in the language of jinja2 as transformers sets it up: an immutable sandbox, trim_blocks
// and lstrip_blocks, loop controls, generation blocks, raise_exception and strftime_now. Immutable; any
// number of threads may render one.
//
//   Result<Template> greeting = Template::compile("Hello {{ name }}!");
//   Result<Rendered> text = greeting->render({{"name", Value("Ada", source)}}, {}, {});
class Template {
 public:
  // A syntax error, or what is not supported, is a Failure (environment.template) with line and column.
  static Result<Template> compile(std::string_view source);

  // Variables that are not given are undefined. An error of the template, or one that it raises, is a Failure
  // (environment.template) with line and column, and so is a render beyond the limits.
  Result<Rendered> render(const Variables& variables, const CivilTime& now, const RenderLimits& limits) const;

  // Whether the template mentions a variable of the name.
  bool mentions(std::string_view name) const { return syntax_->find(name) >= 0; }

 private:
  explicit Template(Syntax syntax) : syntax_(std::make_shared<const Syntax>(std::move(syntax))) {}

  std::shared_ptr<const Syntax> syntax_;
};

}  // namespace stoker::jinja
