#include "async/task_promise.h"

namespace stoker::detail {

void rethrow(const std::exception_ptr& exception) { std::rethrow_exception(exception); }

}  // namespace stoker::detail
