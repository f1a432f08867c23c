#pragma once

#include <string>
#include <string_view>

#include "environment/tool.h"

namespace stoker {

// The tool "calculator": one argument "expression", evaluated as evaluate_expression says. The result is the
// number alone ("1788", "0.5"); a wrong expression is a tool error of a few words ("error: division by
// zero"), short because the model pays for each token. Stateless.
class CalculatorTool final : public Tool {
 public:
  const ToolSchema& schema() const override;
  Task<Result<ToolResult>> call(const Json& arguments) override;
};

// What the tool says to an expression, without its coroutine.
ToolResult calculate(std::string_view expression);

}  // namespace stoker
