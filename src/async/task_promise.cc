#include "async/task_promise.h"

#include "base/error.h"

namespace stoker::detail {

void rethrow(const std::exception_ptr& exception) { std::rethrow_exception(exception); }

void throw_moved_from() {
  throw internal_error("A Task was awaited or started that has been moved from; each Task runs once.");
}

}  // namespace stoker::detail
