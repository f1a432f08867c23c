#include "text/parsers/formats.h"

namespace stoker {

Reading<bool> read_plain(TurnScan& scan) { co_return co_await content_until(scan, {}) == kRestart; }

}  // namespace stoker
