#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/parsers/reading.h"
#include "text/parsers/turn_builder.h"
#include "text/parsers/turn_input.h"
#include "text/tool_call_parser.h"

namespace stoker {

// What the readers of a turn share.
struct TurnScan {
  TurnInput in;
  TurnBuilder out;
  const ParseOptions& options;
  bool thought = false;   // no closing tag of thinking can turn what was read into thinking any more
  size_t body_begin = 0;  // where the text behind the thinking starts
};

// Beside tag indices: the text has ended; what was read was thinking and the body starts anew behind it.
inline constexpr int kTextEnd = -1;
inline constexpr int kRestart = -2;

// Moves to the first of some tags, whose index is the result; the tag is not consumed.
class ToTag final : public Scanner<int> {
 public:
  // Where the text before the tag goes.
  enum class Between { kContent, kReasoning, kNothing };
  // Whether the end of a thinking that the prompt opened is looked for too.
  enum class UnopenedClose { kStops, kIgnored };

  ToTag(TurnScan& scan, std::span<const std::string_view> tags, UnopenedClose close, Between between);
  bool advance() override;

 private:
  // A set of bytes.
  class Bytes {
   public:
    void add(char byte) { words_[index(byte) / 64] |= uint64_t{1} << (index(byte) % 64); }
    bool has(char byte) const { return (words_[index(byte) / 64] >> (index(byte) % 64) & 1) != 0; }

   private:
    static size_t index(char byte) { return static_cast<unsigned char>(byte); }
    uint64_t words_[4] = {};
  };

  int match(size_t place) const;
  int restart(size_t close);

  TurnScan& scan_;
  std::span<const std::string_view> tags_;
  UnopenedClose close_;
  Between between_;
  Bytes first_;  // of the tags
};

// Takes text as content up to the first of `tags`, whose index it gives with the tag not yet consumed; or
// kTextEnd or kRestart.
ToTag content_until(TurnScan& scan, std::span<const std::string_view> tags);

// Skips to the first of `tags` or the end of a thinking that the prompt opened, which is not consumed: where
// reading goes on behind a broken call. Gives the tag's index, kRestart for the thinking's end, or kTextEnd.
ToTag skip_until(TurnScan& scan, std::span<const std::string_view> tags);

class SkipBlanks final : public Scanner<int> {
 public:
  explicit SkipBlanks(TurnScan& scan) : Scanner(scan.in) {}
  bool advance() override {
    while (is_turn_blank(in_.peek())) in_.skip(1);
    result_ = in_.peek();
    return result_ != TurnInput::kEnd || in_.ended();
  }
};
// Skips blanks and gives the byte behind them, not consumed, or TurnInput::kEnd.
inline SkipBlanks skip_blanks(TurnScan& scan) { return SkipBlanks(scan); }

class TakeTag final : public Scanner<int> {
 public:
  TakeTag(TurnScan& scan, std::span<const std::string_view> tags) : Scanner(scan.in), tags_(tags) {}
  bool advance() override {
    result_ = match_tag(in_, in_.at(), tags_);
    if (result_ >= 0) in_.skip(tags_[static_cast<size_t>(result_)].size());
    return result_ != kPartialTag;
  }

 private:
  std::span<const std::string_view> tags_;
};
// Consumes one of `tags` if it stands here; gives its index or kNoTag.
inline TakeTag take_tag(TurnScan& scan, std::span<const std::string_view> tags) { return {scan, tags}; }

// The text at `place` for an error sentence: quoted, of bounded length, the same however the text arrives.
Reading<std::string> excerpt(TurnScan& scan, size_t place);

// Separates the thinking at the front of the turn. Sets `thought` and `body_begin`.
Reading<bool> read_reasoning(TurnScan& scan);

// Whether only blanks stand between `place` and the start of its line or of the body.
bool starts_line(const TurnScan& scan, size_t place);

}  // namespace stoker
