#include "text/jinja/marked_text.h"

#include <algorithm>

namespace stoker::jinja {

MarkedText::MarkedText(std::string bytes, Source source) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) ranges_.push_back({bytes_.size(), source});
}

bool MarkedText::is_ascii() const {
  return std::all_of(bytes_.begin(), bytes_.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
}

void MarkedText::append(std::string_view bytes, Source source) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!ranges_.empty() && ranges_.back().source == source) {
    ranges_.back().end = bytes_.size();
  } else {
    ranges_.push_back({bytes_.size(), source});
  }
}

void MarkedText::append_part(const MarkedText& text, size_t begin, size_t end) {
  if (begin >= end) return;
  auto range = std::upper_bound(text.ranges_.begin(), text.ranges_.end(), begin,
                                [](size_t position, const Range& at) { return position < at.end; });
  for (std::string_view bytes = text.bytes_; begin < end; ++range) {
    size_t stop = std::min(end, range->end);
    append(bytes.substr(begin, stop - begin), range->source);
    begin = stop;
  }
}

MarkedText MarkedText::part(size_t begin, size_t end) const {
  MarkedText result;
  result.append_part(*this, begin, end);
  result.markup_ = markup_;
  return result;
}

Source MarkedText::source_at(size_t position) const {
  if (ranges_.empty()) return kTemplateSource;
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), position,
                                [](size_t at, const Range& candidate) { return at < candidate.end; });
  return range == ranges_.end() ? ranges_.back().source : range->source;
}

}  // namespace stoker::jinja
