#include "text/parsers/fence.h"
#include "text/parsers/formats.h"

namespace stoker {

Reading<bool> read_fenced_json(TurnScan& scan) {
  for (;;) {
    int tag = co_await content_until(scan, kFence);
    if (tag < 0) co_return tag == kRestart;
    if (co_await read_fence(scan, false) == kRestart) co_return true;
  }
}

}  // namespace stoker
