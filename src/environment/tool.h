#pragma once

#include <string>

#include "async/task.h"
#include "base/json.h"
#include "base/result.h"
#include "text/message.h"

namespace stoker {

// What a tool tells the model. An error (bad arguments, division by zero) is an observation like any other;
// it is counted. A Failure of Tool::call is of the infrastructure and is never shown to the model.
struct ToolResult {
  std::string content;
  bool is_error = false;
};

// A function that the model may call. Arguments were validated against the schema before `call`.
class Tool {
 public:
  virtual ~Tool() = default;
  virtual const ToolSchema& schema() const = 0;  // OpenAI function form
  virtual Task<Result<ToolResult>> call(const Json& arguments) = 0;
};

}  // namespace stoker
