#include "text/jinja/text_operations.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/characters.h"
#include "text/jinja/operators.h"

namespace stoker::jinja {
namespace {

// Each character through `change`, which also gets its index; sources stay.
template <typename Change>
MarkedText mapped(const MarkedText& text, Change change) {
  MarkedText result;
  result.reserve(text.size());
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    if (step.valid) {
      result.append(change(step.code_point), text.source_at(at));
    } else {
      result.append_part(text, at, at + step.size);
    }
    at += step.size;
  }
  result.set_markup(text.is_markup());
  return result;
}

std::string unchanged(char32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

}  // namespace

MarkedText strip(const MarkedText& text, const Value* characters, bool left, bool right) {
  if (characters == nullptr || characters->is_none()) {
    ByteRange kept = stripped(text.bytes(), nullptr, left, right);
    return text.part(kept.begin, kept.end);
  }
  if (characters->text() == nullptr)
    throw RenderError{fmt::format("what is stripped must be text, found {}", type_name(*characters))};
  std::string_view set = characters->text()->bytes();
  ByteRange kept = stripped(text.bytes(), &set, left, right);
  return text.part(kept.begin, kept.end);
}

MarkedText replace(const MarkedText& text, const MarkedText& old_text, const MarkedText& new_text,
                   int64_t count, Budget& budget) {
  MarkedText result;
  result.set_markup(text.is_markup());
  const std::string& bytes = text.bytes();
  size_t done = 0;
  if (old_text.empty()) {
    std::vector<size_t> starts = character_starts(bytes);
    budget.bytes(starts.size() * new_text.size());
    for (size_t i = 0; i < starts.size() && count != 0; ++i, --count) {
      result.append_part(text, done, starts[i]);
      result.append(new_text);
      done = starts[i];
    }
  } else {
    for (; count != 0; --count) {
      size_t found = bytes.find(old_text.bytes(), done);
      if (found == std::string::npos) break;
      budget.bytes(new_text.size());
      result.append_part(text, done, found);
      result.append(new_text);
      done = found + old_text.size();
    }
  }
  result.append_part(text, done, bytes.size());
  return result;
}

MarkedText upper(const MarkedText& text) { return mapped(text, to_upper); }
MarkedText lower(const MarkedText& text) { return mapped(text, to_lower); }

MarkedText capitalize(const MarkedText& text) {
  return mapped(text, [first = true](char32_t c) mutable {
    return std::exchange(first, false) ? (c == U'ß' ? std::string("Ss") : to_upper(c)) : to_lower(c);
  });
}

MarkedText title(const MarkedText& text, bool by_words) {
  static constexpr std::u32string_view kOpening = U"-({[<";
  return mapped(text, [begins = true, by_words](char32_t c) mutable {
    bool ends = by_words ? !is_upper(c) && !is_lower(c)
                         : is_python_space(c) || kOpening.find(c) != std::u32string_view::npos;
    if (ends) {
      begins = true;
      return unchanged(c);
    }
    return std::exchange(begins, false) ? to_upper(c) : to_lower(c);
  });
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  static constexpr std::u32string_view kLineEnds = U"\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029";
  std::vector<MarkedText> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8_step(std::string_view(text.bytes()).substr(at));
    size_t end = at;
    at += step.size;
    if (!step.valid || kLineEnds.find(step.code_point) == std::u32string_view::npos) continue;
    if (step.code_point == U'\r' && at < text.size() && text.bytes()[at] == '\n') ++at;
    lines.push_back(text.part(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.part(begin, text.size()));
  return lines;
}

MarkedText join(const MarkedText& separator, const std::vector<Value>& items, Budget& budget) {
  MarkedText result;
  for (size_t i = 0; i < items.size(); ++i) {
    MarkedText item = to_text(items[i]);
    budget.bytes(separator.size() + item.size());
    if (i > 0) result.append(separator);
    result.append(separator.is_markup() && !item.is_markup() ? escaped(item) : item);
  }
  result.set_markup(separator.is_markup());
  return result;
}

MarkedText swap_case(const MarkedText& text) {
  return mapped(text, [](char32_t c) { return is_upper(c) ? to_lower(c) : to_upper(c); });
}

}  // namespace stoker::jinja
