#pragma once

#include "async/pool.h"

namespace stoker {

// A pool for tests of environments that never block: it starts no thread.
inline Pool& test_pool() {
  static Pool pool;
  return pool;
}

}  // namespace stoker
