#include "environment/gsm8k/final_number.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>

#include "environment/ascii.h"

namespace stoker {
namespace {

constexpr std::pair<std::string_view, std::string_view> kLatex[] = {
    {"{,}", ","}, {",\\!", ","}, {"\\!", ""}, {"\\,", ""}, {"\\$", "$"}, {"\\%", "%"}, {"−", "-"}};
constexpr std::string_view kCurrencies[] = {"$", "€", "£", "¥"};
constexpr int kLargestExponent = 400;
constexpr size_t kRatioDigits = 18;  // of numerator and denominator: both fit into 64 bits
constexpr size_t kMixedDigits = 9;
constexpr uint64_t kMixedLimit = 1'000'000'000;

size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_ascii_digit(text[end])) ++end;
  return end - at;
}

uint64_t to_integer(std::string_view digits) {
  uint64_t value = 0;
  for (char c : digits) value = value * 10 + static_cast<uint64_t>(c - '0');
  return value;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  while (true) {
    const size_t found = text.find(from);
    result.append(text.substr(0, found));
    if (found == std::string_view::npos) return result;
    result.append(to);
    text.remove_prefix(found + from.size());
  }
}

// "{-?digits}" (the sign if `may_be_negative`) at `at`: what stands inside, and `at` moved past it.
std::optional<std::string_view> braced_number(std::string_view text, size_t& at, bool may_be_negative) {
  if (at >= text.size() || text[at] != '{') return std::nullopt;
  const size_t begin = at + 1;
  const size_t sign = may_be_negative && begin < text.size() && text[begin] == '-' ? 1 : 0;
  const size_t digits = digits_at(text, begin + sign);
  const size_t end = begin + sign + digits;
  if (digits == 0 || end >= text.size() || text[end] != '}') return std::nullopt;
  at = end + 1;
  return text.substr(begin, sign + digits);
}

// \frac{3}{4}, \dfrac, \tfrac become 3/4; a digit before makes a mixed number of it.
std::string without_fractions(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    for (std::string_view command : {"\\frac", "\\dfrac", "\\tfrac"}) {
      if (text.substr(at).starts_with(command)) end = at + command.size();
    }
    if (end > at) {
      const std::optional<std::string_view> over = braced_number(text, end, true);
      const std::optional<std::string_view> under = over ? braced_number(text, end, false) : std::nullopt;
      if (under) {
        if (!result.empty() && is_ascii_digit(result.back()) && is_ascii_digit(text[at - 1])) result += ' ';
        result.append(*over).append("/").append(*under);
        at = end;
        continue;
      }
    }
    result.push_back(text[at++]);
  }
  return result;
}

std::string plain(std::string_view text) {
  std::string result(text);
  for (const auto& [latex, written] : kLatex) result = replaced(result, latex, written);
  return without_fractions(result);
}

std::string decimal(std::string_view whole, std::string_view fraction, int power) {
  std::string digits = std::string(whole) + std::string(fraction);
  int64_t point = static_cast<int64_t>(whole.size()) + power;
  if (point < 0) digits.insert(0, static_cast<size_t>(-point), '0');
  point = std::max<int64_t>(point, 0);
  if (digits.size() < static_cast<size_t>(point)) digits.resize(static_cast<size_t>(point), '0');
  std::string before = digits.substr(0, static_cast<size_t>(point));
  std::string after = digits.substr(static_cast<size_t>(point));
  before.erase(0, std::min(before.find_first_not_of('0'), before.size()));
  after.resize(after.find_last_not_of('0') + 1);  // npos + 1 is 0
  if (before.empty()) before = "0";
  return after.empty() ? before : before + "." + after;
}

// A decimal where one is exact, else the reduced fraction.
std::string ratio(uint64_t over, uint64_t under) {
  const uint64_t divisor = std::gcd(over, under);
  over /= divisor;
  under /= divisor;
  uint64_t rest = under;
  for (uint64_t prime : {2u, 5u}) {
    while (rest % prime == 0) rest /= prime;
  }
  if (rest != 1) return std::to_string(over) + "/" + std::to_string(under);
  std::string digits;
  for (uint64_t remainder = over % under; remainder != 0; remainder %= under) {
    remainder *= 10;
    digits += std::to_string(remainder / under);
  }
  return decimal(std::to_string(over / under), digits, 0);
}

struct Ratio {
  uint64_t over = 0;
  uint64_t under = 0;
  size_t end = 0;
};

// "3/4" at `at`, unless it goes on as a date or a decimal does.
std::optional<Ratio> ratio_at(std::string_view text, size_t at) {
  const size_t over = digits_at(text, at);
  const size_t slash = at + over;
  if (over == 0 || over > kRatioDigits || slash >= text.size() || text[slash] != '/') return std::nullopt;
  const size_t under = digits_at(text, slash + 1);
  const size_t end = slash + 1 + under;
  if (under == 0 || under > kRatioDigits) return std::nullopt;
  if (end + 1 < text.size() && (text[end] == '/' || text[end] == '.') && is_ascii_digit(text[end + 1])) {
    return std::nullopt;
  }
  return Ratio{to_integer(text.substr(at, over)), to_integer(text.substr(slash + 1, under)), end};
}

// Whether the text in front of a number ends with its sign: "-", "-$", "$-".
bool is_negative(std::string_view before) {
  for (std::string_view currency : kCurrencies) {
    if (before.ends_with(currency)) {
      before.remove_suffix(currency.size());
      break;
    }
  }
  if (!before.ends_with('-')) return false;
  before.remove_suffix(1);
  return before.empty() ||
         !(is_ascii_digit(before.back()) || is_ascii_letter(before.back()) || before.back() == ')');
}

// The numbers of a text from left to right.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}

  // The next one in canonical form; empty at the end.
  std::optional<std::string> next() {
    size_t at = at_;
    while (at < text_.size() && !begins_number(at)) ++at;
    if (at >= text_.size()) return std::nullopt;
    std::string value = read(at);
    if (value != "0" && is_negative(text_.substr(0, at))) value.insert(0, 1, '-');
    return value;
  }

 private:
  bool begins_number(size_t at) const {
    return is_ascii_digit(text_[at]) || (text_[at] == '.' && digits_at(text_, at + 1) > 0);
  }

  // Reads the number that begins at `start`; the next one is looked for behind it.
  std::string read(size_t start) {
    const std::optional<Ratio> fraction_of = ratio_at(text_, start);
    if (fraction_of && fraction_of->under != 0 && !follows_slash(start)) {
      at_ = fraction_of->end;
      return ratio(fraction_of->over, fraction_of->under);
    }
    at_ = start + digits_at(text_, start);
    std::string whole(text_.substr(start, at_ - start));
    const bool grouped = read_groups(whole);
    std::string_view fraction;
    if (at_ < text_.size() && text_[at_] == '.') {
      fraction = text_.substr(at_ + 1, digits_at(text_, at_ + 1));
      if (!fraction.empty()) at_ += 1 + fraction.size();
    }
    const std::optional<int> power = read_exponent();
    if (fraction.empty() && !power && !grouped && whole.size() <= kMixedDigits && at_ < text_.size() &&
        text_[at_] == ' ') {
      const std::optional<Ratio> part = ratio_at(text_, at_ + 1);
      if (part && 0 < part->over && part->over < part->under && part->under < kMixedLimit) {
        at_ = part->end;
        return ratio(to_integer(whole) * part->under + part->over, part->under);
      }
    }
    return decimal(whole, fraction, power && is_usable(*power) ? *power : 0);
  }

  static bool is_usable(int power) { return power >= -kLargestExponent && power <= kLargestExponent; }

  // ",234" behind one to three digits.
  bool read_groups(std::string& whole) {
    if (whole.empty() || whole.size() > 3) return false;
    bool grouped = false;
    while (at_ < text_.size() && text_[at_] == ',' && digits_at(text_.substr(0, at_ + 5), at_ + 1) == 3) {
      whole.append(text_.substr(at_ + 1, 3));
      at_ += 4;
      grouped = true;
    }
    return grouped;
  }

  // The exponent, if there is one. One that is out of range is no part of the number: only `at_` stays where
  // it was.
  std::optional<int> read_exponent() {
    if (at_ >= text_.size() || (text_[at_] != 'e' && text_[at_] != 'E')) return std::nullopt;
    size_t digits = at_ + 1;
    const bool negative = digits < text_.size() && text_[digits] == '-';
    if (digits < text_.size() && (text_[digits] == '-' || text_[digits] == '+')) ++digits;
    const size_t count = digits_at(text_, digits);
    if (count == 0) return std::nullopt;
    int power = 0;
    for (size_t i = 0; i < count && power <= kLargestExponent; ++i)
      power = power * 10 + (text_[digits + i] - '0');
    if (!is_usable(power)) return kLargestExponent + 1;
    at_ = digits + count;
    return negative ? -power : power;
  }

  bool follows_slash(size_t start) const {
    return start >= 2 && text_[start - 1] == '/' && is_ascii_digit(text_[start - 2]);
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::optional<std::string> first_number(std::string_view part) {
  const std::string text = plain(part);
  const size_t equals = text.rfind('=');
  return Numbers(std::string_view(text).substr(equals == std::string::npos ? 0 : equals + 1)).next();
}

std::optional<std::string_view> marked_part(std::string_view text) {
  constexpr std::string_view kHashes = "####", kBox = "\\boxed{";
  const size_t hashes = text.rfind(kHashes), box = text.rfind(kBox);
  if (hashes == std::string_view::npos && box == std::string_view::npos) return std::nullopt;
  if (box == std::string_view::npos || (hashes != std::string_view::npos && hashes > box)) {
    const std::string_view rest = text.substr(hashes + kHashes.size());
    return rest.substr(0, rest.find('\n'));
  }
  const std::string_view inside = text.substr(box + kBox.size());
  int depth = 1;
  for (size_t i = 0; i < inside.size(); ++i) {
    depth += inside[i] == '{' ? 1 : inside[i] == '}' ? -1 : 0;
    if (depth == 0) return inside.substr(0, i);
  }
  return inside.substr(0, inside.find('\n'));
}

// From behind the last "answer is" or "answer:" to the end of the sentence.
std::optional<std::string_view> phrase(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  size_t begin = 0;
  for (std::string_view words : {"answer is", "answer:"}) {
    const size_t found = small.rfind(words);
    if (found != std::string::npos) begin = std::max(begin, found + words.size());
  }
  if (begin == 0) return std::nullopt;
  size_t end = begin;
  while (end < text.size() && text[end] != '\n' &&
         !(text[end] == '.' && (end + 1 == text.size() || is_ascii_blank(text[end + 1])))) {
    ++end;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::optional<std::string> final_number(std::string_view text) {
  for (const std::optional<std::string_view>& part : {marked_part(text), phrase(text)}) {
    if (!part) continue;
    if (std::optional<std::string> found = first_number(*part)) return found;
  }
  const std::string whole = plain(text);
  Numbers numbers(whole);
  std::optional<std::string> last;
  while (std::optional<std::string> number = numbers.next()) last = std::move(number);
  return last;
}

}  // namespace stoker
