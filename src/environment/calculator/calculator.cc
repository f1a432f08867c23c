#include "environment/calculator/calculator.h"

#include "environment/calculator/expression.h"

namespace stoker {

const ToolSchema& CalculatorTool::schema() const {
  static const ToolSchema schema = {
      .name = "calculator",
      .description = "Evaluates an arithmetic expression with + - * / ** and parentheses.",
      .parameters =
          Json::object({{"type", "object"},
                        {"properties", Json::object({{"expression", Json::object({{"type", "string"}})}})},
                        {"required", Json::array({"expression"})},
                        {"additionalProperties", false}}),
  };
  return schema;
}

Task<Result<ToolResult>> CalculatorTool::call(const Json& arguments) {
  co_return calculate(arguments.at("expression").as_string());
}

ToolResult calculate(std::string_view expression) {
  Result<CalculatorNumber> value = evaluate_expression(expression);
  if (!value) return {"error: " + value.failure().message, true};
  return {value->to_string(), false};
}

}  // namespace stoker
