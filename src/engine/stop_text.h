#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// The text of a sampled span as it grows, watched for stop strings. A stop string may lie across tokens and
// may end inside one.
class StopText {
 public:
  // `strings`: none empty. `earlier`: text of the same turn from an interrupted request; a stop string may
  // begin in it, and it is no part of text().
  explicit StopText(std::vector<std::string> strings = {}, std::string earlier = {});

  // Appends a token's bytes; true when that completes a stop string.
  bool append(std::string_view bytes);

  // What was appended, up to the first completed stop string.
  std::string text() const;

 private:
  std::vector<std::string> strings_;
  std::string text_;  // `earlier`, then what was appended
  size_t begin_;      // where the appended text begins
  size_t end_ = std::string::npos;
};

}  // namespace stoker
