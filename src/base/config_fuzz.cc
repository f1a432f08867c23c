// Any bytes as a run file: refused with an Error, or the resolved form reads back to the same resolved
// values.

#include <cstdlib>

#include "base/config.h"
#include "base/error.h"

namespace {

struct Inner {
  double rate = 0.5;
  std::vector<std::string> names;
  template <typename V>
  void for_each_field(V& visit) {
    visit("rate", rate, "A rate.", stoker::between(0, 1));
    visit("names", names, "Names.");
  }
};

struct Outer {
  std::string title = "a";
  int64_t count = 3;
  bool flag = false;
  Inner inner;
  template <typename V>
  void for_each_field(V& visit) {
    visit("title", title, "A title.");
    visit("count", count, "A count.", stoker::at_least(0));
    visit("flag", flag, "A flag.");
    visit.section("inner", inner, "Inner keys.");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Outer config;
  stoker::ConfigReader reader(config);
  try {
    reader.read_text(text, "run.toml");
  } catch (const stoker::Error&) {
    return 0;
  }
  Outer again;
  stoker::ConfigReader second(again);
  second.read_text(reader.dump(), "resolved.toml");
  bool same = again.title == config.title && again.count == config.count && again.flag == config.flag &&
              again.inner.rate == config.inner.rate && again.inner.names == config.inner.names;
  if (!same) std::abort();
  return 0;
}
