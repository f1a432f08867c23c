#include "text/decoder.h"

#include <charconv>

#include "text/byte_map.h"
#include "text/tokenizer_part.h"

namespace stoker {
namespace {

// Names are written in GPT-2's map. Added tokens stand for their content, as names with other characters do.
class ByteLevelDecoder : public TokenDecoder {
 public:
  std::string bytes(std::string_view name, bool added) const override {
    return added ? std::string(name) : name_to_bytes(name).value_or(std::string(name));
  }
};

// One step on the text of one token.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // `first`: of the first token that is decoded.
  virtual void apply(std::string& text, bool first) const = 0;
};

class ReplaceStep : public DecoderStep {
 public:
  ReplaceStep(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  void apply(std::string& text, bool) const override {
    size_t at = text.find(from_);
    if (at == std::string::npos) return;
    std::string result;
    size_t done = 0;
    for (; at != std::string::npos; at = text.find(from_, done)) {
      result.append(text, done, at - done).append(to_);
      done = at + from_.size();
    }
    text = result.append(text, done);
  }

 private:
  std::string from_;
  std::string to_;
};

// "<0x0A>" is a byte.
class ByteFallbackStep : public DecoderStep {
 public:
  void apply(std::string& text, bool) const override {
    if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with('>')) return;
    unsigned byte = 0;
    auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
    if (error == std::errc() && end == text.data() + 5) text.assign(1, static_cast<char>(byte));
  }
};

// The sign for a blank becomes one, and nothing in the first token where a blank was put in front of the
// text.
class MetaspaceStep : public DecoderStep {
 public:
  MetaspaceStep(std::string sign, bool prepended) : sign_(std::move(sign)), prepended_(prepended) {}

  void apply(std::string& text, bool first) const override {
    ReplaceStep(sign_, first && prepended_ ? "" : " ").apply(text, first);
  }

 private:
  std::string sign_;
  bool prepended_;
};

// Takes characters off the start of a token.
class StripStep : public DecoderStep {
 public:
  StripStep(std::string character, size_t most) : character_(std::move(character)), most_(most) {}

  void apply(std::string& text, bool) const override {
    for (size_t i = 0; i < most_ && text.starts_with(character_); ++i) text.erase(0, character_.size());
  }

 private:
  std::string character_;
  size_t most_;
};

// Steps on single tokens, then perhaps Fuse and a Strip of the blanks at the start of the whole.
class StepDecoder : public TokenDecoder {
 public:
  explicit StepDecoder(const std::vector<TokenizerPart>& parts) {
    bool fused = false;
    for (const TokenizerPart& part : parts) {
      std::string type = part.type();
      if (type == "Fuse") {
        fused = true;
      } else if (fused && type == "Strip") {
        read_whole_strip(part);
      } else if (fused) {
        throw part.unsupported("Strip after Fuse");
      } else {
        steps_.push_back(read_step(part));
      }
    }
  }

  std::string bytes(std::string_view name, bool) const override { return run(name, false); }
  std::string first_bytes(std::string_view name, bool) const override { return run(name, true); }
  size_t dropped_leading_blanks() const override { return dropped_; }

 private:
  std::string run(std::string_view name, bool first) const {
    std::string text(name);
    for (const auto& step : steps_) step->apply(text, first);
    return text;
  }

  // How many characters a Strip takes off the start.
  static size_t read_start(const TokenizerPart& part) {
    if (part.integer("stop", 0) != 0) {
      throw part.member("stop").bad("takes characters off the end, which Stoker does not support");
    }
    int64_t count = part.integer("start", 0);
    if (count < 0 || count > 1000) throw part.member("start").bad("is no number between 0 and 1000");
    return static_cast<size_t>(count);
  }

  void read_whole_strip(const TokenizerPart& part) {
    if (part.text("content") != " ") throw part.member("content").bad("is not a blank");
    dropped_ += read_start(part);
  }

  static std::unique_ptr<const DecoderStep> read_step(const TokenizerPart& part) {
    std::string type = part.type();
    if (type == "Replace") {
      TokenizerPart pattern = part.member("pattern");
      std::string from = pattern.text("String");
      if (from.empty()) throw pattern.bad("is empty");
      return std::make_unique<ReplaceStep>(std::move(from), part.text("content"));
    }
    if (type == "ByteFallback") return std::make_unique<ByteFallbackStep>();
    if (type == "Metaspace") return read_metaspace(part);
    if (type == "Strip") {
      std::string character = part.text("content");
      if (character.empty()) throw part.member("content").bad("is empty");
      return std::make_unique<StripStep>(character, read_start(part));
    }
    throw part.unsupported("ByteLevel alone, or Replace, ByteFallback, Metaspace, Fuse and Strip");
  }

  static std::unique_ptr<const DecoderStep> read_metaspace(const TokenizerPart& part) {
    std::string sign = part.text("replacement", "\xE2\x96\x81");
    if (sign.empty()) throw part.member("replacement").bad("is empty");
    // Older files say add_prefix_space where newer ones say prepend_scheme.
    std::string scheme =
        part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      throw part.member("prepend_scheme").bad("is none of always, first and never");
    }
    return std::make_unique<MetaspaceStep>(std::move(sign), scheme != "never");
  }

  std::vector<std::unique_ptr<const DecoderStep>> steps_;
  size_t dropped_ = 0;
};

}  // namespace

std::unique_ptr<const TokenDecoder> read_decoder(const TokenizerPart& part) {
  std::vector<TokenizerPart> steps = part.flattened("decoders");
  if (steps.size() == 1 && steps[0].type() == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  return std::make_unique<StepDecoder>(steps);
}

}  // namespace stoker
