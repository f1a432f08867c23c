#include "compute/compute_type.h"

#include <fmt/core.h>
#include "base/error.h"

namespace stoker {

std::string_view to_string(ComputeType type) {
  return type == ComputeType::kFloat32 ? "float32" : "bfloat16";
}

ComputeType compute_type(std::string_view name) {
  for (const ComputeType type : {ComputeType::kFloat32, ComputeType::kBfloat16}) {
    if (to_string(type) == name) return type;
  }
  throw input_error(fmt::format("The compute type '{}' is unknown; it may be float32 or bfloat16.", name));
}

}  // namespace stoker
