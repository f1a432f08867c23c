#include "environment/answer.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "environment/ascii.h"

namespace stoker {
namespace {

constexpr std::string_view kCurrencies[] = {"$", "€", "£", "¥"};
constexpr std::string_view kSigns[] = {"-", "−"};
constexpr int kMaxExponent = 400;

// Removes one of `endings` from the end of `text`.
template <size_t N>
bool drop_ending(std::string_view& text, const std::string_view (&endings)[N]) {
  for (std::string_view ending : endings) {
    if (text.ends_with(ending)) {
      text.remove_suffix(ending.size());
      return true;
    }
  }
  return false;
}

// Whether the text in front of a number ends with its sign: "-", "-$", "$-".
bool negative_after(std::string_view before) {
  drop_ending(before, kCurrencies);
  if (!drop_ending(before, kSigns)) return false;
  return before.empty() ||
         !(is_ascii_digit(before.back()) || is_ascii_letter(before.back()) || before.back() == ')');
}

// A scanned number: the digits of `whole`, a point, those of `fraction`, moved by `exponent`.
struct Number {
  bool negative = false;
  std::string whole;
  std::string fraction;
  int exponent = 0;
};

std::string canonical(Number number) {
  for (; number.exponent > 0; --number.exponent) {
    number.whole.push_back(number.fraction.empty() ? '0' : number.fraction.front());
    if (!number.fraction.empty()) number.fraction.erase(0, 1);
  }
  if (number.exponent < 0) {
    auto shift = static_cast<size_t>(-number.exponent);
    if (number.whole.size() < shift) number.whole.insert(0, shift - number.whole.size(), '0');
    size_t kept = number.whole.size() - shift;
    number.fraction.insert(0, number.whole.substr(kept));
    number.whole.resize(kept);
  }
  number.whole.erase(0, std::min(number.whole.find_first_not_of('0'), number.whole.size()));
  number.fraction.resize(number.fraction.find_last_not_of('0') + 1);  // npos + 1 is 0
  if (number.whole.empty()) number.whole = "0";
  std::string text = number.whole + (number.fraction.empty() ? "" : "." + number.fraction);
  return number.negative && text != "0" ? "-" + text : text;
}

size_t count_digits(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_ascii_digit) - text.begin());
}

// Scans the number that starts at `at` (a digit, or a point before one) and moves `at` past it.
Number scan_number(std::string_view text, size_t& at) {
  Number number;
  number.negative = negative_after(text.substr(0, at));
  size_t digits = count_digits(text.substr(at));
  number.whole = text.substr(at, digits);
  at += digits;
  if (digits >= 1 && digits <= 3) {
    while (at < text.size() && text[at] == ',' && count_digits(text.substr(at + 1).substr(0, 4)) == 3) {
      number.whole += text.substr(at + 1, 3);
      at += 4;
    }
  }
  if (at + 1 < text.size() && text[at] == '.' && is_ascii_digit(text[at + 1])) {
    digits = count_digits(text.substr(at + 1));
    number.fraction = text.substr(at + 1, digits);
    at += 1 + digits;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t start = at + 1;
    if (start < text.size() && text[start] == '+') ++start;
    int exponent = 0;
    auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), exponent);
    if (error == std::errc() && exponent >= -kMaxExponent && exponent <= kMaxExponent) {
      number.exponent = exponent;
      at = static_cast<size_t>(end - text.data());
    }
  }
  return number;
}

}  // namespace

std::optional<std::string> final_answer(const EpisodeView& episode) {
  if (episode.record.failure || episode.messages.empty()) return std::nullopt;
  const Message& last = episode.messages.back();
  if (last.role != Role::kAssistant || !last.tool_calls.empty()) return std::nullopt;
  const auto& spans = episode.record.trajectory.spans();
  auto sampled = std::find_if(spans.rbegin(), spans.rend(),
                              [](const Span& span) { return span.kind == SpanKind::kSampled; });
  if (sampled != spans.rend() &&
      (sampled->stop_reason == StopReason::kLength || sampled->stop_reason == StopReason::kAborted)) {
    return std::nullopt;
  }
  return last.content;
}

std::optional<std::string> last_number(std::string_view text) {
  std::optional<Number> last;
  for (size_t at = 0; at < text.size();) {
    bool point = text[at] == '.' && at + 1 < text.size() && is_ascii_digit(text[at + 1]) &&
                 (at == 0 || !(is_ascii_digit(text[at - 1]) || text[at - 1] == '.'));
    if (is_ascii_digit(text[at]) || point) {
      last = scan_number(text, at);
    } else {
      ++at;
    }
  }
  if (!last) return std::nullopt;
  return canonical(*std::move(last));
}

std::string normalized_text(std::string_view text, bool ignore_case) {
  std::string result;
  for (char c : text) {
    if (is_ascii_blank(c)) {
      if (!result.empty() && result.back() != ' ') result.push_back(' ');
    } else {
      result.push_back(ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
  }
  if (result.ends_with(' ')) result.pop_back();
  return result;
}

}  // namespace stoker
