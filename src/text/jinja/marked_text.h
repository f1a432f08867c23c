#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/author.h"

namespace stoker::jinja {

// Where text comes from. Only trusted text, the template's own, may become control tokens.
struct Source {
  Author author = Author::kTemplate;
  bool trusted = false;

  bool operator==(const Source&) const = default;
};

// The source of what the template itself writes.
inline constexpr Source kTemplateSource{Author::kTemplate, true};

// A text that remembers for each byte who wrote it, through slices and joins.
class MarkedText {
 public:
  // [end of the range before, end): one source. Neighbours differ.
  struct Range {
    size_t end = 0;
    Source source;

    bool operator==(const Range&) const = default;
  };

  MarkedText() = default;
  MarkedText(std::string bytes, Source source);

  const std::string& bytes() const { return bytes_; }
  std::span<const Range> ranges() const { return ranges_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool is_ascii() const;

  // Jinja's Markup: text that needs no HTML escapes; text joined to it by '+' is escaped.
  bool is_markup() const { return markup_; }
  void set_markup(bool markup) { markup_ = markup; }

  void append(std::string_view bytes, Source source);
  void append(const MarkedText& text) { append_part(text, 0, text.size()); }
  // Bytes [begin, end) of `text`.
  void append_part(const MarkedText& text, size_t begin, size_t end);
  void reserve(size_t bytes) { bytes_.reserve(bytes); }

  // Bytes [begin, end); keeps the markup flag.
  MarkedText part(size_t begin, size_t end) const;
  // Of the byte at `position`; of empty text or past the end, the last source there is, else the template's.
  Source source_at(size_t position) const;

 private:
  std::string bytes_;
  std::vector<Range> ranges_;
  bool markup_ = false;
};

}  // namespace stoker::jinja
