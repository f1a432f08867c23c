#include "text/jinja/template.h"

#include <fmt/format.h>

#include "text/jinja/interpreter.h"

namespace stoker::jinja {
namespace {

Failure template_failure(const std::string& message, Place place) {
  return {FailureClass::kEnvironment, "template",
          fmt::format("{} (template line {}, column {})", message, place.line, place.column)};
}

}  // namespace

Result<Template> Template::compile(std::string_view source) {
  try {
    return Template(parse(source));
  } catch (const SyntaxError& error) {
    return template_failure(error.message, error.place);
  }
}

Result<Rendered> Template::render(const Variables& variables, const CivilTime& now,
                                  const RenderLimits& limits) const {
  Interpreter interpreter(*syntax_, variables, now, limits);
  try {
    return interpreter.run();
  } catch (const RenderError& error) {
    return template_failure(error.message, interpreter.place());
  }
}

}  // namespace stoker::jinja
