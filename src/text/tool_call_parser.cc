#include "text/tool_call_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "text/json_text.h"

namespace stoker {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kCallOpen = "<tool_call>";
constexpr std::string_view kCallClose = "</tool_call>";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr size_t kLongestExcerpt = 60;

std::string_view trim(std::string_view text, std::string_view characters) {
  size_t begin = text.find_first_not_of(characters);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(characters) - begin + 1);
}

size_t skip_blanks(std::string_view text, size_t at) {
  size_t next = text.find_first_not_of(kBlanks, at);
  return next == std::string_view::npos ? text.size() : next;
}

// The text around a place, for an error sentence of bounded length.
std::string excerpt(std::string_view text, size_t at) {
  std::string_view rest = text.substr(at, kLongestExcerpt);
  return rest.empty() ? "the end" : Json(rest).dump();
}

// Splits reasoning off the front of `text`; returns where the rest starts. Only an opening tag at the very
// start opens a thinking block.
size_t split_reasoning(std::string_view text, ParsedTurn& turn) {
  size_t start = skip_blanks(text, 0);
  if (!text.substr(start).starts_with(kThinkOpen)) return 0;
  size_t begin = start + kThinkOpen.size();
  size_t end = text.find(kThinkClose, begin);
  if (end == std::string_view::npos) {
    turn.reasoning = trim(text.substr(begin), "\n");
    turn.problems.push_back({text.size(), "The thinking does not end: </think> is missing."});
    return text.size();
  }
  turn.reasoning = trim(text.substr(begin, end - begin), "\n");
  return end + kThinkClose.size();
}

// Reads the body of one call, from behind its opening tag.
class CallReader {
 public:
  CallReader(std::string_view text, size_t tag) : text_(text), tag_(tag), at_(tag + kCallOpen.size()) {}

  ParsedCall read() {
    size_t begin = skip_blanks(text_, at_);
    at_ = begin;
    if (begin == text_.size()) {
      problem(begin, "The call is cut off after <tool_call>.");
    } else if (text_[begin] != '{') {
      problem(begin, fmt::format("A JSON object must follow <tool_call>, found {}.", excerpt(text_, begin)));
    } else {
      read_object(begin);
    }
    if (parsed_.problem && !closed_) at_ = recovery_point();
    parsed_.call.raw = std::string(text_.substr(tag_, at_ - tag_));
    return std::move(parsed_);
  }

  size_t end() const { return at_; }

 private:
  // The first problem of a call is the one that is told.
  void problem(size_t position, std::string message) {
    if (!parsed_.problem) parsed_.problem = ParseProblem{position, std::move(message)};
  }

  void read_object(size_t begin) {
    std::string_view rest = text_.substr(begin);
    JsonScan scan = scan_json(rest);
    if (scan.status != JsonScan::Status::kComplete) {
      parsed_.call.name = leading_name(rest);
      problem(begin + scan.position,
              fmt::format("The call is no valid JSON: {} at character {} of the call, before {}.",
                          scan.reason, scan.position + 1, excerpt(rest, scan.position)));
      return;
    }
    at_ = begin + scan.position;
    Result<Json> object = Json::try_parse(rest.substr(0, scan.position));
    if (object) {
      understand(begin, without_duplicates(*object));
    } else {
      problem(begin, fmt::format("The call is no valid JSON: {}.", object.failure().message));
    }
    expect_closing_tag();
  }

  void expect_closing_tag() {
    size_t next = skip_blanks(text_, at_);
    if (text_.substr(next).starts_with(kCallClose)) {
      at_ = next + kCallClose.size();
      closed_ = true;
    } else if (next == text_.size()) {
      problem(next, "The call is cut off: </tool_call> is missing after the JSON object.");
    } else {
      problem(next, fmt::format("</tool_call> must follow the JSON object, found {}.", excerpt(text_, next)));
    }
  }

  void understand(size_t begin, const Json& object) {
    ToolCall& call = parsed_.call;
    const Json* name = object.find("name");
    if (name != nullptr && name->is_string()) call.name = name->as_string();
    if (call.name.empty()) problem(begin, "The call has no \"name\" that is a string.");
    const Json* arguments = object.find("arguments");
    const Json* alias = object.find("parameters");
    if (arguments != nullptr && alias != nullptr) {
      problem(begin, "The call has both \"arguments\" and \"parameters\"; give \"arguments\" only.");
    }
    if (arguments == nullptr) arguments = alias;
    if (arguments == nullptr) {
      problem(begin, "The call has no \"arguments\"; give an object, {} for none.");
      return;
    }
    call.arguments = *arguments;
    if (arguments->is_string()) {
      Result<Json> decoded = Json::try_parse(arguments->as_string());
      if (decoded && decoded->is_object()) call.arguments = without_duplicates(*decoded);
    }
    if (!call.arguments.is_object()) {
      problem(begin, fmt::format("\"arguments\" must be an object, found {}.", call.arguments.type_name()));
    }
  }

  // The name in `{"name": "...`, where the rest of the object is broken.
  static std::string leading_name(std::string_view object) {
    size_t key = skip_blanks(object, 1);
    constexpr std::string_view kKey = "\"name\"";
    if (!object.substr(key).starts_with(kKey)) return "";
    size_t colon = skip_blanks(object, key + kKey.size());
    if (colon == object.size() || object[colon] != ':') return "";
    std::string_view value = object.substr(skip_blanks(object, colon + 1));
    if (!value.starts_with('"')) return "";
    JsonScan scan = scan_json(value);
    if (scan.status != JsonScan::Status::kComplete) return "";
    Result<Json> name = Json::try_parse(value.substr(0, scan.position));
    return name ? name->as_string() : "";
  }

  // A broken call ends with its closing tag, or where the next one opens.
  size_t recovery_point() const {
    size_t close = text_.find(kCallClose, at_);
    size_t open = text_.find(kCallOpen, at_);
    if (close == std::string_view::npos) return std::min(open, text_.size());
    return open < close ? open : close + kCallClose.size();
  }

  std::string_view text_;
  size_t tag_;
  size_t at_;
  bool closed_ = false;
  ParsedCall parsed_;
};

class HermesParser final : public ToolCallParser {
 public:
  ParsedTurn parse(std::string_view text) const override {
    ParsedTurn turn;
    size_t at = split_reasoning(text, turn);
    bool thought = at > 0;
    std::string content;
    while (at < text.size()) {
      size_t tag = text.find_first_of('<', at);
      content += text.substr(at, tag == std::string_view::npos ? tag : tag - at);
      if (tag == std::string_view::npos) break;
      std::string_view rest = text.substr(tag);
      at = tag;
      if (rest.starts_with(kCallOpen)) {
        CallReader reader(text, tag);
        turn.calls.push_back(reader.read());
        at = reader.end();
      } else if (rest.starts_with(kThinkClose) && !thought) {
        // The prompt opened the block: all before it was thinking, drafted calls included.
        turn = {};
        turn.reasoning = trim(text.substr(0, tag), "\n");
        content.clear();
        thought = true;
        at += kThinkClose.size();
      } else {
        if (rest.starts_with(kCallClose))
          turn.problems.push_back({tag, "</tool_call> stands without <tool_call>."});
        content.push_back('<');
        ++at;
      }
    }
    turn.content = trim(content, kBlanks);
    return turn;
  }
};

class PlainParser final : public ToolCallParser {
 public:
  ParsedTurn parse(std::string_view text) const override {
    ParsedTurn turn;
    size_t at = split_reasoning(text, turn);
    turn.content = trim(text.substr(at), kBlanks);
    return turn;
  }
};

}  // namespace

std::vector<std::string> tool_call_formats() { return {"hermes", "none"}; }

std::unique_ptr<const ToolCallParser> make_tool_call_parser(std::string_view format) {
  if (format == "hermes") return std::make_unique<HermesParser>();
  if (format == "none") return std::make_unique<PlainParser>();
  throw input_error(fmt::format("There is no tool-call format '{}'; the known ones are {}.", format,
                                fmt::join(tool_call_formats(), ", ")));
}

}  // namespace stoker
