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

// The steps of a SentencePiece-like decoder: Replace, ByteFallback ("<0x0A>" is a byte), Fuse.
class StepDecoder : public TokenDecoder {
 public:
  explicit StepDecoder(const std::vector<TokenizerPart>& parts) {
    for (const TokenizerPart& part : parts) {
      std::string type = part.type();
      if (type == "Replace") {
        TokenizerPart pattern = part.member("pattern");
        std::string from = pattern.text("String");
        if (from.empty()) throw pattern.bad("is empty");
        replacements_.emplace_back(from, part.text("content"));
      } else if (type == "ByteFallback") {
        byte_fallback_ = true;
      } else if (type != "Fuse") {
        throw part.unsupported("ByteLevel, Replace, ByteFallback and Fuse");
      }
    }
  }

  std::string bytes(std::string_view name, bool /*added*/) const override {
    if (byte_fallback_ && name.size() == 6 && name.starts_with("<0x") && name.ends_with('>')) {
      unsigned byte = 0;
      auto [end, error] = std::from_chars(name.data() + 3, name.data() + 5, byte, 16);
      if (error == std::errc() && end == name.data() + 5) return std::string(1, static_cast<char>(byte));
    }
    std::string text(name);
    for (const auto& [from, to] : replacements_) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
      }
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> replacements_;
  bool byte_fallback_ = false;
};

}  // namespace

std::unique_ptr<const TokenDecoder> read_decoder(const TokenizerPart& part) {
  std::vector<TokenizerPart> steps = part.flattened("decoders");
  if (steps.size() == 1 && steps[0].type() == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  return std::make_unique<StepDecoder>(steps);
}

}  // namespace stoker
