#include "io/line_splitter.h"

#include <algorithm>

namespace stoker {

bool LineSplitter::complete(std::string_view line, FunctionRef<void(std::string_view)> take) {
  if (overlong_ == Overlong::kCut) {
    while (line.size() > max_line_bytes_) {
      take(line.substr(0, max_line_bytes_));
      line.remove_prefix(max_line_bytes_);
    }
  } else if (line.size() > max_line_bytes_) {
    return false;
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  take(line);
  return true;
}

bool LineSplitter::feed(std::string_view bytes, FunctionRef<void(std::string_view line)> take) {
  if (refused_) return false;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      rest_.append(bytes);
      break;
    }
    bool fits;
    if (rest_.empty()) {
      fits = complete(bytes.substr(0, end), take);
    } else {
      rest_.append(bytes.substr(0, end));
      fits = complete(rest_, take);
      rest_.clear();
    }
    if (!fits) refused_ = true;
    if (refused_) return false;
    bytes.remove_prefix(end + 1);
  }
  if (overlong_ == Overlong::kCut) {
    // One byte more than the limit is held back: it may be the '\r' of the line's end.
    while (rest_.size() > max_line_bytes_ + 1) {
      take(std::string_view(rest_).substr(0, max_line_bytes_));
      rest_.erase(0, max_line_bytes_);
    }
  } else if (rest_.size() > max_line_bytes_ + 1) {
    refused_ = true;
    rest_.clear();
  }
  return !refused_;
}

}  // namespace stoker
