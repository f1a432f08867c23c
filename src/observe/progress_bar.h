#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace stoker {

// Shows how far some work is and how long it will take. On a terminal one line is redrawn in place; elsewhere
// plain lines, one for each tenth of the work. Time comes from the caller. Not thread-safe.
class ProgressBar {
 public:
  using Write = std::function<void(std::string_view text)>;

  // `total`: units of work, above 0. `width`: columns of the terminal; 0: no terminal. `write` gets whole
  // pieces of text, in order.
  ProgressBar(std::string title, int64_t total, int width, Write write);
  // A bar on standard error, as wide as its terminal, if it is one.
  static ProgressBar on_standard_error(std::string title, int64_t total);

  // `done` of `total` units after `seconds` of work; `text` is a few words beside the bar (reward 0.81).
  void update(int64_t done, double seconds, std::string_view text = "");
  // Removes the bar from the terminal line, so that another line can be printed; the next update draws it
  // again.
  void clear();

 private:
  std::string title_;
  int64_t total_;
  int width_;
  Write write_;
  int64_t tenths_shown_ = -1;
  bool drawn_ = false;
};

// "8 s", "3 min 20 s", "2 h 05 min": a span of time for people.
std::string format_seconds(double seconds);

}  // namespace stoker
