#include "engine/stop_text.h"

#include <algorithm>
#include <utility>

namespace stoker {

StopText::StopText(std::vector<std::string> strings, std::string earlier)
    : strings_(std::move(strings)), text_(std::move(earlier)), begin_(text_.size()) {}

bool StopText::append(std::string_view bytes) {
  const size_t before = text_.size();
  text_.append(bytes);
  size_t first = std::string::npos;
  for (const std::string& string : strings_) {
    // Where the first occurrence that ends in the new bytes can begin.
    const size_t from = before >= string.size() ? before - string.size() + 1 : 0;
    first = std::min(first, text_.find(string, from));
  }
  if (first == std::string::npos) return false;
  end_ = std::max(first, begin_);
  return true;
}

std::string StopText::text() const { return text_.substr(begin_, end_ - begin_); }

}  // namespace stoker
