#include "text/parsers/turn_scan.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/json.h"

namespace stoker {
namespace {

constexpr size_t kLongestExcerpt = 60;

// Thinking as the public model families write it; the opening and the closing tag have the same index.
constexpr std::string_view kThinkingOpen[] = {"<think>",   "<thinking>",        "<reasoning>",
                                              "<thought>", "<seed:think>",      "[THINK]",
                                              "◁think▷",   "<|channel>thought", "<|START_THINKING|>"};
constexpr std::string_view kThinkingClose[] = {"</think>",   "</thinking>",   "</reasoning>",
                                               "</thought>", "</seed:think>", "[/THINK]",
                                               "◁/think▷",   "<channel|>",    "<|END_THINKING|>"};
// What ends a thinking block that nothing in the turn has opened.
constexpr std::string_view kUnopenedClose[] = {"</think>", "[/THINK]"};

// The first bytes of tags.
class FirstBytes {
 public:
  void add(std::span<const std::string_view> tags) {
    for (std::string_view tag : tags) is_first_[static_cast<unsigned char>(tag[0])] = true;
  }
  size_t find(std::string_view text, size_t from) const {
    while (from < text.size() && !is_first_[static_cast<unsigned char>(text[from])]) ++from;
    return from;
  }

 private:
  std::array<bool, 256> is_first_{};
};

enum class Between { kContent, kReasoning, kNothing };

// Moves to the first of `tags`; what stands before goes where `between` says.
Reading<int> move_to(TurnScan& scan, std::vector<std::string_view> tags, Between between) {
  FirstBytes first;
  first.add(tags);
  for (;;) {
    size_t begin = scan.in.at();
    size_t next = first.find(scan.in.text(), begin);
    int tag = next < scan.in.size() ? match_tag(scan.in, next, tags) : kPartialTag;
    if (tag == kNoTag) ++next;
    if (between == Between::kContent) scan.out.add_content(scan.in.between(begin, next));
    if (between == Between::kReasoning) scan.out.add_reasoning(scan.in.between(begin, next));
    scan.in.seek(next);
    if (tag >= 0) co_return tag;
    if (tag == kNoTag) continue;
    if (scan.in.ended()) co_return kTextEnd;
    co_await scan.in.more();
  }
}

std::vector<std::string_view> with_unopened_close(const TurnScan& scan,
                                                  std::span<const std::string_view> tags) {
  std::vector<std::string_view> all(tags.begin(), tags.end());
  if (!scan.thought) all.insert(all.end(), std::begin(kUnopenedClose), std::end(kUnopenedClose));
  return all;
}

// Ends the thinking at its closing tag; `close` are the tags that may end it.
Reading<bool> read_thinking(TurnScan& scan, std::vector<std::string_view> close) {
  scan.thought = true;
  scan.out.hold(false);
  std::string wanted(close.front());
  int tag = co_await move_to(scan, close, Between::kReasoning);
  if (tag == kTextEnd) {
    scan.out.add_problem(scan.in.size(), "The thinking does not end: " + wanted + " is missing.");
  } else {
    scan.in.skip(close[static_cast<size_t>(tag)].size());
  }
  scan.body_begin = scan.in.at();
  co_return true;
}

}  // namespace

Reading<int> content_until(TurnScan& scan, std::span<const std::string_view> tags) {
  int tag = co_await move_to(scan, with_unopened_close(scan, tags), Between::kContent);
  if (tag == kTextEnd || tag < static_cast<int>(tags.size())) co_return tag;
  scan.out.everything_was_reasoning(scan.in.between(0, scan.in.at()));
  scan.in.skip(kUnopenedClose[static_cast<size_t>(tag) - tags.size()].size());
  scan.thought = true;
  scan.out.hold(false);
  scan.body_begin = scan.in.at();
  co_return kRestart;
}

Reading<int> skip_until(TurnScan& scan, std::span<const std::string_view> tags) {
  int tag = co_await move_to(scan, with_unopened_close(scan, tags), Between::kNothing);
  co_return tag < static_cast<int>(tags.size()) ? tag : kRestart;
}

Reading<int> skip_blanks(TurnScan& scan) {
  for (;;) {
    int byte = co_await scan.in.byte();
    if (!is_turn_blank(byte)) co_return byte;
    scan.in.skip(1);
  }
}

Reading<int> take_tag(TurnScan& scan, std::span<const std::string_view> tags) {
  for (;;) {
    int tag = match_tag(scan.in, scan.in.at(), tags);
    if (tag != kPartialTag) {
      if (tag >= 0) scan.in.skip(tags[static_cast<size_t>(tag)].size());
      co_return tag;
    }
    co_await scan.in.more();
  }
}

Reading<std::string> excerpt(TurnScan& scan, size_t place) {
  while (scan.in.size() < place + kLongestExcerpt && !scan.in.ended()) co_await scan.in.more();
  std::string_view rest = scan.in.text().substr(place, kLongestExcerpt);
  co_return rest.empty() ? "the end" : Json(rest).dump();
}

Reading<bool> read_reasoning(TurnScan& scan) {
  scan.out.hold(scan.options.thinking == ThinkingStart::kUnknown);
  co_await skip_blanks(scan);
  int open = co_await take_tag(scan, kThinkingOpen);
  if (open >= 0) co_return co_await read_thinking(scan, {kThinkingClose[static_cast<size_t>(open)]});
  scan.in.seek(0);
  if (scan.options.thinking == ThinkingStart::kOpen) {
    co_return co_await read_thinking(scan, {std::begin(kThinkingClose), std::end(kThinkingClose)});
  }
  scan.thought = scan.options.thinking == ThinkingStart::kClosed;
  co_return true;
}

bool starts_line(const TurnScan& scan, size_t place) {
  std::string_view text = scan.in.text();
  while (place > scan.body_begin && text[place - 1] != '\n') {
    if (!is_turn_blank(static_cast<unsigned char>(text[place - 1]))) return false;
    --place;
  }
  return true;
}

}  // namespace stoker
