#include "compute/recompute.h"

#include <fmt/core.h>
#include "base/error.h"

namespace stoker {

std::string_view to_string(Recompute form) {
  switch (form) {
    case Recompute::kNone:
      return "none";
    case Recompute::kAttention:
      return "attention";
    case Recompute::kLayer:
      return "layer";
  }
  throw internal_error("There is a form of recomputation without a name.");
}

Recompute recompute_form(std::string_view name) {
  for (const Recompute form : kRecomputeForms) {
    if (name == to_string(form)) return form;
  }
  throw input_error(
      fmt::format("The recomputation '{}' is unknown; it may be none, attention or layer.", name));
}

}  // namespace stoker
