#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

class TokenizerPart;

// Text that has been rewritten, and where each of its bytes comes from.
struct AlignedText {
  std::string text;
  bool tracked = false;  // origins are kept; else both lists stay empty
  // Byte i of `text` stands for the bytes [begins[i], ends[i]) of the original; both never fall. Both empty:
  // byte i is byte i of the original.
  std::vector<uint32_t> begins;
  std::vector<uint32_t> ends;

  void assign(std::string_view original);
  uint32_t begin_of(size_t byte) const { return begins.empty() ? static_cast<uint32_t>(byte) : begins[byte]; }
  uint32_t end_of(size_t byte) const { return ends.empty() ? static_cast<uint32_t>(byte + 1) : ends[byte]; }
};

// Rewrites a text from left to right.
//
//   TextRewriter rewriter(text);
//   rewriter.keep(at);                 // bytes up to `at` as they are
//   rewriter.replace(at + 1, "_");   // the next byte becomes these
//   rewriter.finish();                 // the rest as it is
//
// All bytes that take the place of a stretch stand for the whole stretch; bytes put in where nothing was
// taken stand for the byte that follows, at the end for the last one.
class TextRewriter {
 public:
  explicit TextRewriter(AlignedText& text) : source_(text) { result_.tracked = text.tracked; }

  void keep(size_t end);
  void replace(size_t end, std::string_view by);
  void finish();

 private:
  AlignedText& source_;
  AlignedText result_;
  size_t done_ = 0;  // source bytes handled
};

// What is done to text before it is cut into words. Immutable. Bytes that are no UTF-8 are kept as they are
// and part the text around them.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText& text) const = 0;
  // True only if normalize would leave `text` as it is; cheap, and may say false without looking closely.
  virtual bool keeps(std::string_view text) const = 0;
};

// Reads the member "normalizer"; null gives nothing. Throws Error(kInput) naming the file and the place.
std::unique_ptr<const Normalizer> read_normalizer(const TokenizerPart& part);

}  // namespace stoker
