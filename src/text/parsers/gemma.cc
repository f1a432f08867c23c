#include <fmt/format.h>

#include <algorithm>

#include "base/json_string.h"
#include "text/parsers/fence.h"
#include "text/parsers/formats.h"
#include "text/parsers/json_call.h"
#include "text/parsers/python_call.h"

namespace stoker {
namespace {

// FunctionGemma and Gemma 4 write the same grammar with tokens of their own.
struct Dialect {
  std::string_view open;
  std::string_view close;
  std::string_view quote;
};
constexpr Dialect kDialects[] = {{"<start_function_call>", "<end_function_call>", "<escape>"},
                                 {"<|tool_call>", "<tool_call|>", "<|\"|>"}};
constexpr std::string_view kGemmaTags[] = {kDialects[0].open, kDialects[1].open, "```", "["};
constexpr int kFenceTag = 2;
constexpr std::string_view kCallPrefix[] = {"call:"};
constexpr int kDeepestGemmaValue = 64;

// Reads the body of one call: call:NAME{key:value,...}.
class GemmaCallReader {
 public:
  GemmaCallReader(TurnScan& scan, const Dialect& dialect) : scan_(scan), quote_{dialect.quote} {}

  // False: broken, told; the place read up to is where recovery starts.
  Reading<bool> read() {
    co_await skip_blanks(scan_);
    if (co_await take_tag(scan_, kCallPrefix) < 0) co_return co_await fail("call:NAME{...} was expected");
    const std::string_view brace[] = {"{", "}", "<", "\n"};
    size_t begin = scan_.in.at();
    int end = co_await skip_until(scan_, brace);
    scan_.out.call().call.name = trimmed(scan_.in.between(begin, scan_.in.at()));
    if (end != 0) co_return co_await fail("{ was expected behind the tool's name");
    scan_.out.announce_call();
    co_return co_await value(0);
  }

 private:
  Reading<bool> fail(std::string reason) {
    size_t place = scan_.in.at();
    std::string found = co_await excerpt(scan_, place);
    scan_.out.call_problem(place, fmt::format("The call cannot be read: {}, before {}.", reason, found));
    co_return false;
  }

  Reading<bool> value(int depth) {
    int byte = co_await skip_blanks(scan_);
    if (depth > kDeepestGemmaValue) co_return co_await fail("the nesting is too deep");
    if (byte == '{') co_return co_await members('}', depth);
    if (byte == '[') co_return co_await members(']', depth);
    if (co_await take_tag(scan_, quote_) >= 0) co_return co_await text();
    JsonPart part = co_await read_json_value(scan_, true);
    if (part.ok) co_return true;
    scan_.in.seek(part.position);
    bool told = co_await fail(part.reason);
    scan_.in.seek(part.recover_from);
    co_return told;
  }

  // Text up to the next quoting token, as it stands.
  Reading<bool> text() {
    scan_.out.add_arguments("\"");
    for (;;) {
      std::string_view rest = scan_.in.rest();
      size_t next = std::min(rest.find('<'), rest.size());
      std::string quoted;
      append_json_string(quoted, rest.substr(0, next), InvalidUtf8::kKeep);
      scan_.out.add_arguments(std::string_view(quoted).substr(1, quoted.size() - 2));
      scan_.in.skip(next);
      if (scan_.in.at() == scan_.in.size()) {
        if (scan_.in.ended()) co_return co_await fail("the text ends in the middle of a value");
        co_await scan_.in.more();
      } else if (match_tag(scan_.in, scan_.in.at(), quote_) != kNoTag &&
                 co_await take_tag(scan_, quote_) >= 0) {
        scan_.out.add_arguments("\"");
        co_return true;
      } else {
        scan_.out.add_arguments("<");
        scan_.in.skip(1);
      }
    }
  }

  // A member's name: bare, quoted by the token, or a JSON string.
  Reading<bool> key() {
    if (co_await skip_blanks(scan_) == '"') {
      JsonPart part = co_await read_json_value(scan_, true);
      if (!part.ok) co_return co_await fail(part.reason);
    } else if (co_await take_tag(scan_, quote_) >= 0) {
      if (!co_await text()) co_return false;
    } else {
      const std::string_view behind[] = {":", ",", "}", "{", "[", "]", "<", "\n"};
      size_t begin = scan_.in.at();
      if (co_await skip_until(scan_, behind) != 0 || scan_.in.at() == begin) {
        co_return co_await fail("an argument's name and a colon were expected");
      }
      std::string name;
      append_json_string(name, scan_.in.between(begin, scan_.in.at()), InvalidUtf8::kKeep);
      scan_.out.add_arguments(name);
    }
    if (co_await skip_blanks(scan_) != ':') co_return co_await fail("a colon was expected");
    scan_.in.skip(1);
    scan_.out.add_arguments(": ");
    co_return true;
  }

  // An object or a list at its opening bracket.
  Reading<bool> members(char closing, int depth) {
    scan_.out.add_arguments(closing == '}' ? "{" : "[");
    scan_.in.skip(1);
    for (bool first = true;; first = false) {
      int byte = co_await skip_blanks(scan_);
      if (byte == closing) break;
      if (!first && byte != ',') co_return co_await fail("a comma or a closing bracket was expected");
      if (!first) {
        scan_.in.skip(1);
        scan_.out.add_arguments(", ");
      }
      if (closing == '}' && !co_await key()) co_return false;
      if (!co_await value(depth + 1)) co_return false;
    }
    scan_.in.skip(1);
    scan_.out.add_arguments(std::string_view(&closing, 1));
    co_return true;
  }

  TurnScan& scan_;
  std::string_view quote_[1];
};

Reading<bool> read_gemma_call(TurnScan& scan, const Dialect& dialect) {
  const std::string_view close[] = {dialect.close};
  const std::string_view ends[] = {dialect.close, dialect.open};
  size_t tag = scan.in.at();
  scan.out.open_call();
  scan.in.skip(dialect.open.size());
  size_t begin = scan.in.at();
  GemmaCallReader reader(scan, dialect);
  bool whole = co_await reader.read();
  if (whole) {
    co_await skip_blanks(scan);
    whole = co_await take_tag(scan, close) >= 0;
    if (!whole) {
      std::string found = co_await excerpt(scan, scan.in.at());
      scan.out.call_problem(scan.in.at(),
                            fmt::format("{} must follow the arguments, found {}.", dialect.close, found));
    }
  }
  if (!whole && co_await skip_until(scan, ends) == 0) scan.in.skip(dialect.close.size());
  scan.out.close_call(tag, scan.in.between(tag, scan.in.at()), begin);
  co_return true;
}

// A list of calls as Gemma 3 writes it without a fence, or a bracket of content.
Reading<bool> read_gemma_list(TurnScan& scan) {
  size_t begin = scan.in.at();
  scan.in.skip(1);
  if (starts_line(scan, begin)) {
    co_await skip_blanks(scan);
    if (co_await at_python_call(scan, scan.in.at())) {
      if (!co_await read_python_calls(scan, ']', {})) {
        scan.out.add_problem(scan.in.at(),
                             "The list of calls does not end: ] is missing behind the last call.");
      }
      co_return true;
    }
  }
  scan.in.seek(begin + 1);
  scan.out.add_content("[");
  co_return true;
}

}  // namespace

Reading<bool> read_gemma(TurnScan& scan) {
  for (;;) {
    int tag = co_await content_until(scan, kGemmaTags);
    if (tag < 0) co_return tag == kRestart;
    if (tag < kFenceTag) {
      co_await read_gemma_call(scan, kDialects[tag]);
    } else if (tag > kFenceTag) {
      co_await read_gemma_list(scan);
    } else if (co_await read_fence(scan, true) == kRestart) {
      co_return true;
    }
  }
}

}  // namespace stoker
