#include "text/pretokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/regex_splitter.h"
#include "text/tokenizer_part.h"
#include "text/unicode.h"

namespace stoker {
namespace {

// What becomes of the matches of a pattern and of the text between (the reference's SplitDelimiterBehavior).
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior read_behavior(const TokenizerPart& part, std::string_view absent) {
  std::string name = part.text("behavior", absent);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw part.bad(fmt::format("has the unknown behavior '{}'", name));
}

// A stretch of a word: a match or what lies between two.
struct Stretch {
  TextRange range;
  bool is_match = false;
};

void append(SplitBehavior behavior, const std::vector<Stretch>& stretches, std::vector<TextRange>& words) {
  const size_t first = words.size();
  bool previous_match = false;
  auto join = [&](const TextRange& range) { words.back().end = range.end; };
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Stretch& stretch : stretches) {
        if (!stretch.is_match) words.push_back(stretch.range);
      }
      break;
    case SplitBehavior::kIsolated:
      for (const Stretch& stretch : stretches) words.push_back(stretch.range);
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Stretch& stretch : stretches) {
        bool joins = stretch.is_match && !previous_match && words.size() > first;
        joins ? join(stretch.range) : words.push_back(stretch.range);
        previous_match = stretch.is_match;
      }
      break;
    case SplitBehavior::kContiguous:
      for (const Stretch& stretch : stretches) {
        bool joins = stretch.is_match == previous_match && words.size() > first;
        joins ? join(stretch.range) : words.push_back(stretch.range);
        previous_match = stretch.is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (size_t i = stretches.size(); i-- > 0;) {
        bool joins = stretches[i].is_match && !previous_match && words.size() > first;
        if (joins) {
          words.back().begin = stretches[i].range.begin;
        } else {
          words.push_back(stretches[i].range);
        }
        previous_match = stretches[i].is_match;
      }
      std::reverse(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
      break;
  }
}

// Cuts at the matches that `Find` appends for a text: find(text, matches).
template <typename Find>
class MatchStep : public PreTokenizerStep {
 public:
  MatchStep(Find find, SplitBehavior behavior, bool invert)
      : find_(std::move(find)), behavior_(behavior), invert_(invert) {}

  void apply(SplitText& split) const override {
    std::vector<TextRange>& matches = split.matches;
    std::vector<Stretch> stretches;
    split.spare.clear();
    for (const TextRange& word : split.words) {
      matches.clear();
      find_(split.word(word), matches);
      if (matches.empty()) {
        if (behavior_ != SplitBehavior::kRemoved || !invert_) split.spare.push_back(word);
        continue;
      }
      if (behavior_ == SplitBehavior::kIsolated) {
        isolate(word, matches, split.spare);
        continue;
      }
      stretches.clear();
      size_t done = word.begin;
      for (const TextRange& match : matches) {
        TextRange range{word.begin + match.begin, word.begin + match.end};
        if (done < range.begin) stretches.push_back({{done, range.begin}, invert_});
        stretches.push_back({range, !invert_});
        done = range.end;
      }
      if (done < word.end) stretches.push_back({{done, word.end}, invert_});
      append(behavior_, stretches, split.spare);
    }
    split.words.swap(split.spare);
  }

 private:
  static void isolate(const TextRange& word, const std::vector<TextRange>& matches,
                      std::vector<TextRange>& words) {
    size_t done = word.begin;
    for (const TextRange& match : matches) {
      if (done < word.begin + match.begin) words.push_back({done, word.begin + match.begin});
      done = word.begin + match.end;
      words.push_back({word.begin + match.begin, done});
    }
    if (done < word.end) words.push_back({done, word.end});
  }

  Find find_;
  SplitBehavior behavior_;
  bool invert_;
};

struct FindRegex {
  RegexSplitter regex;
  void operator()(std::string_view text, std::vector<TextRange>& matches) const { regex.find(text, matches); }
};

struct FindPattern {
  WordPattern pattern;
  void operator()(std::string_view text, std::vector<TextRange>& matches) const {
    scan_words(pattern, text, matches);
  }
};

struct FindString {
  std::string from;
  void operator()(std::string_view text, std::vector<TextRange>& matches) const {
    for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, at)) {
      matches.push_back({at, at + from.size()});
      at += from.size();
    }
  }
};

// Characters with any of the classes, one by one or in runs.
struct FindClass {
  unsigned any_of;
  bool runs;
  void operator()(std::string_view text, std::vector<TextRange>& matches) const {
    const CharacterTable& table = CharacterTable::instance();
    bool in_run = false;
    for (size_t at = 0; at < text.size();) {
      TextCharacter next = table.at(text, at);
      if (next.is(any_of)) {
        if (in_run && runs) {
          matches.back().end = at + next.size;
        } else {
          matches.push_back({at, at + next.size});
        }
      }
      in_run = next.is(any_of);
      at += next.size;
    }
  }
};

// \w+|[^\w\s]+
struct FindWordsAndSigns {
  void operator()(std::string_view text, std::vector<TextRange>& matches) const {
    const CharacterTable& table = CharacterTable::instance();
    enum class Kind { kNone, kWords, kSigns } kind = Kind::kNone;
    for (size_t at = 0; at < text.size();) {
      TextCharacter next = table.at(text, at);
      Kind now = next.is(kWord) ? Kind::kWords : next.is(kSpace) ? Kind::kNone : Kind::kSigns;
      if (now != Kind::kNone && now == kind) {
        matches.back().end = at + next.size;
      } else if (now != Kind::kNone) {
        matches.push_back({at, at + next.size});
      }
      kind = now;
      at += next.size;
    }
  }
};

template <typename Find>
std::unique_ptr<const PreTokenizerStep> step(Find find, SplitBehavior behavior, bool invert = false) {
  return std::make_unique<MatchStep<Find>>(std::move(find), behavior, invert);
}

// Replaces strings inside the words and puts a prefix in front of some.
class RewriteStep : public PreTokenizerStep {
 public:
  enum class Prefix { kNever, kFirst, kAlways };

  RewriteStep(std::string from, std::string by, Prefix prefix)
      : from_(std::move(from)), by_(std::move(by)), prefix_(prefix) {}

  void apply(SplitText& split) const override {
    if (!split.is_rewritten) split.rewritten.assign(split.text);
    split.is_rewritten = true;
    std::string old = split.rewritten.text;
    TextRewriter rewriter(split.rewritten);
    size_t at = 0;
    std::ptrdiff_t grown = 0;  // bytes by which the text before `at` has become longer
    auto replace = [&](size_t end, std::string_view by) {
      rewriter.replace(end, by);
      grown += static_cast<std::ptrdiff_t>(by.size()) - static_cast<std::ptrdiff_t>(end - at);
      at = end;
    };
    for (TextRange& word : split.words) {
      rewriter.keep(word.begin);
      at = word.begin;
      std::string_view view = std::string_view(old).substr(word.begin, word.end - word.begin);
      size_t begin = word.begin + static_cast<size_t>(grown);
      bool wanted =
          prefix_ == Prefix::kAlways || (prefix_ == Prefix::kFirst && split.at_start && word.begin == 0);
      if (wanted && !view.starts_with(from_) && !view.starts_with(by_)) replace(word.begin, by_);
      if (from_ != by_) {
        for (size_t found = old.find(from_, word.begin); found < word.end; found = old.find(from_, at)) {
          rewriter.keep(found);
          at = found;
          replace(found + from_.size(), by_);
        }
      }
      rewriter.keep(word.end);
      word = {begin, word.end + static_cast<size_t>(grown)};
    }
    rewriter.finish();
    split.text = split.rewritten.text;
  }

 private:
  std::string from_;
  std::string by_;
  Prefix prefix_;
};

using Steps = std::vector<std::unique_ptr<const PreTokenizerStep>>;

void read_split(const TokenizerPart& part, Steps& steps) {
  TokenizerPart pattern = part.member("pattern");
  SplitBehavior behavior = read_behavior(part, "Isolated");
  bool invert = part.flag("invert", false);
  if (pattern.has("String")) {
    std::string text = pattern.text("String");
    if (text.empty()) throw pattern.bad("is empty");
    steps.push_back(step(FindString{std::move(text)}, behavior, invert));
    return;
  }
  std::string regex = pattern.text("Regex");
  try {
    steps.push_back(step(FindRegex{RegexSplitter(regex)}, behavior, invert));
  } catch (const Error& error) {
    throw pattern.member("Regex").bad(error.what());
  }
}

void read_metaspace(const TokenizerPart& part, Steps& steps) {
  std::string replacement = part.text("replacement", "\u2581");
  if (replacement.empty() || utf8_step(replacement).size != replacement.size()) {
    throw part.member("replacement").bad("is not one character");
  }
  // Files of older versions have 'add_prefix_space' for the schemes always and never.
  std::string scheme = part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
  std::optional<RewriteStep::Prefix> prefix;
  if (scheme == "always") prefix = RewriteStep::Prefix::kAlways;
  if (scheme == "first") prefix = RewriteStep::Prefix::kFirst;
  if (scheme == "never") prefix = RewriteStep::Prefix::kNever;
  if (!prefix) throw part.bad(fmt::format("has the unknown prepend_scheme '{}'", scheme));
  steps.push_back(std::make_unique<RewriteStep>(" ", replacement, *prefix));
  if (part.flag("split", true))
    steps.push_back(step(FindString{replacement}, SplitBehavior::kMergedWithNext));
}

void read_step(const TokenizerPart& part, Steps& steps) {
  std::string type = part.type();
  if (type == "ByteLevel") {
    if (part.flag("add_prefix_space", true)) {
      steps.push_back(std::make_unique<RewriteStep>(" ", " ", RewriteStep::Prefix::kAlways));
    }
    if (part.flag("use_regex", true))
      steps.push_back(step(FindPattern{WordPattern::kGpt2}, SplitBehavior::kIsolated));
  } else if (type == "Split") {
    read_split(part, steps);
  } else if (type == "Digits") {
    bool individual = part.flag("individual_digits", false);
    steps.push_back(step(FindClass{kNumeric, !individual}, SplitBehavior::kIsolated));
  } else if (type == "Metaspace") {
    read_metaspace(part, steps);
  } else if (type == "Punctuation") {
    steps.push_back(step(FindClass{kPunctuation, false}, read_behavior(part, "Isolated")));
  } else if (type == "Whitespace") {
    steps.push_back(step(FindWordsAndSigns{}, SplitBehavior::kRemoved, true));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(step(FindClass{kSpace, false}, SplitBehavior::kRemoved));
  } else {
    throw part.unsupported(
        "ByteLevel, Digits, Metaspace, Punctuation, Split, Whitespace, WhitespaceSplit and Sequence");
  }
}

}  // namespace

void SplitText::assign(std::string_view whole, bool starts_input, bool tracked) {
  text = whole;
  at_start = starts_input;
  words.clear();
  if (!whole.empty()) words.push_back({0, whole.size()});
  rewritten.tracked = tracked;
  is_rewritten = false;
}

PreTokenizer::PreTokenizer(const TokenizerPart& part) {
  if (part.json().is_null()) return;
  for (const TokenizerPart& step : part.flattened("pretokenizers")) {
    if (byte_level_) throw step.bad("comes after ByteLevel, which Stoker supports as the last step only");
    read_step(step, steps_);
    byte_level_ = step.type() == "ByteLevel";
  }
}

void PreTokenizer::apply(SplitText& split) const {
  for (const auto& step : steps_) step->apply(split);
}

}  // namespace stoker
