#include "observe/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

constexpr int kBarCells = 20;

// "23/40", time used or left, and the words beside it.
std::string status_text(int64_t done, int64_t total, double seconds, std::string_view text) {
  std::string status = fmt::format("{}/{}", done, total);
  if (done >= total) {
    status += fmt::format(", took {}", format_seconds(seconds));
  } else if (done > 0) {
    double left = seconds / static_cast<double>(done) * static_cast<double>(total - done);
    status += fmt::format(", {} left", format_seconds(left));
  }
  if (!text.empty()) status += fmt::format(", {}", text);
  return status;
}

}  // namespace

ProgressBar::ProgressBar(std::string title, int64_t total, int width, Write write)
    : title_(std::move(title)), total_(total), width_(width), write_(std::move(write)) {
  if (total_ <= 0) throw internal_error("A progress bar needs a total above 0.");
}

ProgressBar ProgressBar::on_standard_error(std::string title, int64_t total) {
  int width = 0;
  if (::isatty(STDERR_FILENO)) {
    winsize size{};
    width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  return ProgressBar(std::move(title), total, width,
                     [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); });
}

void ProgressBar::update(int64_t done, double seconds, std::string_view text) {
  done = std::clamp<int64_t>(done, 0, total_);
  std::string status = status_text(done, total_, seconds, text);
  if (width_ == 0) {
    int64_t tenths = done * 10 / total_;
    if (tenths == tenths_shown_) return;
    tenths_shown_ = tenths;
    write_(fmt::format("{}: {}\n", title_, status));
    return;
  }
  auto filled = static_cast<size_t>(done * kBarCells / total_);
  std::string line = fmt::format("{} [{}{}] {}", title_, std::string(filled, '#'),
                                 std::string(kBarCells - filled, '.'), status);
  // The last column stays free: a full line would wrap and could not be redrawn.
  line.resize(std::min(line.size(), static_cast<size_t>(std::max(width_ - 1, 1))));
  write_(fmt::format("\r\x1b[K{}{}", line, done == total_ ? "\n" : ""));
  drawn_ = done != total_;
}

void ProgressBar::clear() {
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
}

std::string format_seconds(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds)) return "?";
  auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace stoker
