#include "text/normalizer.h"

#include <fmt/format.h>

#include "text/base64.h"
#include "text/character_normalizers.h"
#include "text/precompiled_normalizer.h"
#include "text/tokenizer_part.h"
#include "text/unicode_normal_form.h"

namespace stoker {
namespace {

class ReplaceString : public Normalizer {
 public:
  ReplaceString(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  void normalize(AlignedText& text) const override {
    TextRewriter rewriter(text);
    for (size_t at = text.text.find(from_); at != std::string::npos; at = text.text.find(from_, at)) {
      rewriter.keep(at);
      at += from_.size();
      rewriter.replace(at, to_);
    }
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override { return text.find(from_) == std::string_view::npos; }

 private:
  std::string from_;
  std::string to_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<const Normalizer>> steps)
      : steps_(std::move(steps)) {}

  void normalize(AlignedText& text) const override {
    for (const auto& step : steps_) {
      if (!step->keeps(text.text)) step->normalize(text);
    }
  }

  bool keeps(std::string_view text) const override {
    for (const auto& step : steps_) {
      if (!step->keeps(text)) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> steps_;
};

std::unique_ptr<const Normalizer> read_replace(const TokenizerPart& part) {
  TokenizerPart pattern = part.member("pattern");
  std::string by = part.text("content");
  if (pattern.has("Regex")) {
    try {
      return make_pattern_normalizer(RegexSplitter(pattern.text("Regex")), std::move(by));
    } catch (const Error& error) {
      throw pattern.member("Regex").bad(error.what());
    }
  }
  std::string from = pattern.text("String");
  if (from.empty()) throw pattern.bad("is empty");
  return std::make_unique<ReplaceString>(std::move(from), std::move(by));
}

std::unique_ptr<const Normalizer> read_precompiled(const TokenizerPart& part) {
  TokenizerPart map = part.member("precompiled_charsmap");
  std::optional<std::string> bytes = decode_base64(part.text("precompiled_charsmap"));
  if (!bytes) throw map.bad("is no base64");
  // "longest_match" is Stoker's own, for maps out of a SentencePiece file.
  bool longest = part.flag("longest_match", false);
  std::string problem;
  std::unique_ptr<const Normalizer> normalizer = make_precompiled_normalizer(
      *bytes, longest ? CharsmapMatch::kLongest : CharsmapMatch::kGrapheme, problem);
  if (normalizer == nullptr) throw map.bad(problem);
  return normalizer;
}

std::unique_ptr<const Normalizer> read_step(const TokenizerPart& part) {
  std::string type = part.type();
  if (type == "NFC") return make_unicode_normalizer(NormalForm::kNfc);
  if (type == "NFD") return make_unicode_normalizer(NormalForm::kNfd);
  if (type == "NFKC") return make_unicode_normalizer(NormalForm::kNfkc);
  if (type == "NFKD") return make_unicode_normalizer(NormalForm::kNfkd);
  if (type == "Lowercase") return make_lowercase_normalizer();
  if (type == "StripAccents") return make_strip_accents_normalizer();
  if (type == "Nmt") return make_nmt_normalizer();
  if (type == "Strip") {
    return make_strip_normalizer(part.flag("strip_left", true), part.flag("strip_right", true));
  }
  if (type == "Prepend") return make_prepend_normalizer(part.text("prepend"));
  if (type == "Replace") return read_replace(part);
  if (type == "Precompiled") return read_precompiled(part);
  throw part.unsupported(
      "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, Prepend, Replace, Precompiled and "
      "Sequence");
}

}  // namespace

void AlignedText::assign(std::string_view original) {
  text.assign(original);
  begins.clear();
  ends.clear();
}

void TextRewriter::keep(size_t end) {
  result_.text.append(source_.text, done_, end - done_);
  if (result_.tracked) {
    for (size_t i = done_; i < end; ++i) {
      result_.begins.push_back(source_.begin_of(i));
      result_.ends.push_back(source_.end_of(i));
    }
  }
  done_ = end;
}

void TextRewriter::replace(size_t end, std::string_view by) {
  result_.text += by;
  if (result_.tracked) {
    const bool takes = end > done_;
    size_t first = done_;
    if (!takes && first == source_.text.size() && first > 0) --first;  // behind the last byte
    uint32_t begin = source_.text.empty() ? 0 : source_.begin_of(first);
    uint32_t last = source_.text.empty() ? 0 : source_.end_of(takes ? end - 1 : first);
    result_.begins.insert(result_.begins.end(), by.size(), begin);
    result_.ends.insert(result_.ends.end(), by.size(), last);
  }
  done_ = end;
}

void TextRewriter::finish() {
  keep(source_.text.size());
  source_ = std::move(result_);
}

std::unique_ptr<const Normalizer> read_normalizer(const TokenizerPart& part) {
  if (part.json().is_null()) return nullptr;
  std::vector<std::unique_ptr<const Normalizer>> steps;
  for (const TokenizerPart& step : part.flattened("normalizers")) steps.push_back(read_step(step));
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return std::move(steps[0]);
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace stoker
