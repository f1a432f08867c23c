#include "text/parsers/turn_scan.h"

#include <fmt/format.h>

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

// Ends the thinking at its closing tag; `close` are the tags that may end it.
Reading<bool> read_thinking(TurnScan& scan, std::span<const std::string_view> close) {
  scan.thought = true;
  scan.out.hold(false);
  int tag = co_await ToTag(scan, close, ToTag::UnopenedClose::kIgnored, ToTag::Between::kReasoning);
  if (tag == kTextEnd) {
    scan.out.add_problem(scan.in.size(), fmt::format("The thinking does not end: {} is missing.", close[0]));
  } else {
    scan.in.skip(close[static_cast<size_t>(tag)].size());
  }
  scan.body_begin = scan.in.at();
  co_return true;
}

}  // namespace

ToTag::ToTag(TurnScan& scan, std::span<const std::string_view> tags, UnopenedClose close, Between between)
    : Scanner(scan.in), scan_(scan), tags_(tags), close_(close), between_(between) {
  for (std::string_view tag : tags) first_.add(tag[0]);
  if (close == UnopenedClose::kIgnored) return;
  for (std::string_view tag : kUnopenedClose) first_.add(tag[0]);
}

// As match_tag; an index behind those of the tags is one into kUnopenedClose.
int ToTag::match(size_t place) const {
  int tag = match_tag(in_, place, tags_);
  if (close_ == UnopenedClose::kIgnored || tag == kPartialTag) return tag;
  int close = match_tag(in_, place, kUnopenedClose);
  if (close < 0) return close == kPartialTag ? kPartialTag : tag;
  const auto index = static_cast<size_t>(tag);
  if (tag >= 0 && tags_[index].size() >= kUnopenedClose[close].size()) return tag;
  return static_cast<int>(tags_.size()) + close;
}

bool ToTag::advance() {
  for (;;) {
    const std::string_view text = in_.text();
    const size_t begin = in_.at();
    size_t next = begin;
    while (next < text.size() && !first_.has(text[next])) ++next;
    int tag = next < text.size() ? match(next) : kPartialTag;
    if (tag == kNoTag) ++next;
    if (between_ == Between::kContent) scan_.out.add_content(in_.between(begin, next));
    if (between_ == Between::kReasoning) scan_.out.add_reasoning(in_.between(begin, next));
    in_.seek(next);
    if (tag == kNoTag) continue;
    if (tag == kPartialTag) {
      result_ = kTextEnd;
      return in_.ended();
    }
    const auto index = static_cast<size_t>(tag);
    result_ = index < tags_.size() ? tag : restart(index - tags_.size());
    return true;
  }
}

// All up to here was thinking; where the text before goes nowhere, its end stays for who reads on.
int ToTag::restart(size_t close) {
  if (between_ == Between::kNothing) return kRestart;
  scan_.out.everything_was_reasoning(in_.between(0, in_.at()));
  in_.skip(kUnopenedClose[close].size());
  scan_.thought = true;
  scan_.out.hold(false);
  scan_.body_begin = in_.at();
  return kRestart;
}

ToTag content_until(TurnScan& scan, std::span<const std::string_view> tags) {
  const auto close = scan.thought ? ToTag::UnopenedClose::kIgnored : ToTag::UnopenedClose::kStops;
  return {scan, tags, close, ToTag::Between::kContent};
}

ToTag skip_until(TurnScan& scan, std::span<const std::string_view> tags) {
  const auto close = scan.thought ? ToTag::UnopenedClose::kIgnored : ToTag::UnopenedClose::kStops;
  return {scan, tags, close, ToTag::Between::kNothing};
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
  if (open >= 0) {
    co_return co_await read_thinking(scan, std::span(kThinkingClose).subspan(static_cast<size_t>(open), 1));
  }
  scan.in.seek(0);
  if (scan.options.thinking == ThinkingStart::kOpen) {
    co_return co_await read_thinking(scan, kThinkingClose);
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
