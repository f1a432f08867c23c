#include "cli/text_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_string.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "model/gguf_tokenizer.h"
#include "text/detokenizer.h"
#include "text/post_processor.h"
#include "text/tokenizer.h"

namespace stoker {
namespace {

// Four hexadecimal digits; nothing when they are none.
std::optional<char32_t> hexadecimal(std::string_view digits) {
  if (digits.size() < 4) return std::nullopt;
  char32_t value = 0;
  for (char c : digits.substr(0, 4)) {
    size_t digit =
        std::string_view("0123456789abcdef").find(static_cast<char>(c >= 'A' && c <= 'F' ? c | 0x20 : c));
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | static_cast<char32_t>(digit);
  }
  return value;
}

// Reads a JSON string in which surrogates may stand alone, which the JSON parser refuses.
std::optional<std::string> read_surrogates(std::string_view line) {
  if (line.size() < 2 || line.front() != '"' || line.back() != '"') return std::nullopt;
  line = line.substr(1, line.size() - 2);
  std::string text;
  while (!line.empty()) {
    size_t plain = std::min(line.find_first_of("\\\""), line.size());
    text += line.substr(0, plain);
    line.remove_prefix(plain);
    if (line.empty()) break;
    if (line.size() < 2 || line[0] == '"') return std::nullopt;
    size_t simple = std::string_view("\"\\/bfnrt").find(line[1]);
    if (simple != std::string_view::npos) {
      text.push_back("\"\\/\b\f\n\r\t"[simple]);
      line.remove_prefix(2);
      continue;
    }
    std::optional<char32_t> unit = line[1] == 'u' ? hexadecimal(line.substr(2)) : std::nullopt;
    if (!unit) return std::nullopt;
    line.remove_prefix(6);
    std::optional<char32_t> low = line.starts_with("\\u") ? hexadecimal(line.substr(2)) : std::nullopt;
    bool pair = *unit >= 0xD800 && *unit < 0xDC00 && low && *low >= 0xDC00 && *low < 0xE000;
    if (pair) line.remove_prefix(6);
    append_utf8(text, pair ? 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00) : *unit);
  }
  return text;
}

std::string read_text(std::string_view line, size_t number) {
  Result<Json> json = Json::try_parse(line);
  if (json && json->is_string()) return json->as_string();
  if (!json) {
    if (std::optional<std::string> text = read_surrogates(line)) return *text;
  }
  std::string reason =
      json ? fmt::format("holds {} {}", json->is_array() || json->is_object() ? "an" : "a", json->type_name())
           : "is no JSON: " + json.failure().message;
  throw input_error(fmt::format(
      "Line {} of the input {}; write each text as a JSON string, or give --raw for the whole input as "
      "one text.",
      number, reason));
}

std::vector<int32_t> read_ids(std::string_view line, size_t number) {
  auto bad = [&](std::string_view reason) {
    return input_error(fmt::format(
        "Line {} of the input {}; write a JSON list of token ids, such as [9707, 1879].", number, reason));
  };
  Result<Json> json = Json::try_parse(line);
  if (!json) throw bad("is no JSON: " + json.failure().message);
  if (!json->is_array()) throw bad(fmt::format("is no list but {}", json->dump().substr(0, 40)));
  std::vector<int32_t> ids;
  for (const Json& id : json->as_array()) {
    bool fits = id.is_integer() && id.as_double() >= INT32_MIN && id.as_double() <= INT32_MAX;
    if (!fits) throw bad(fmt::format("holds {}, which is no token id", id.dump().substr(0, 40)));
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

// Calls visit(line, number) for each line that is not blank.
template <typename Visit>
void for_each_input_line(std::istream& input, Visit visit) {
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    std::string_view view = line;
    while (!view.empty() && (view.back() == '\r' || view.back() == ' ' || view.back() == '\t'))
      view.remove_suffix(1);
    while (!view.empty() && (view.front() == ' ' || view.front() == '\t')) view.remove_prefix(1);
    if (!view.empty()) visit(view, number);
  }
  if (input.bad()) throw resource_error("The input could not be read to its end; try again.");
}

// Writes a line whole and at once: who asks line by line must not wait.
void write_line(std::ostream& output, std::string& line) {
  line += '\n';
  output.write(line.data(), static_cast<std::streamsize>(line.size()));
  output.flush();
  line.clear();
  if (!output) throw resource_error("The output could not be written; is its reader gone or the disk full?");
}

void append_tokens(std::string& line, const std::vector<EncodedToken>& tokens) {
  line += "{\"ids\": [";
  for (const EncodedToken& token : tokens) fmt::format_to(std::back_inserter(line), "{}, ", token.id);
  if (!tokens.empty()) line.resize(line.size() - 2);
  line += "], \"offsets\": [";
  for (const EncodedToken& token : tokens) {
    fmt::format_to(std::back_inserter(line), "[{}, {}], ", token.begin, token.end);
  }
  if (!tokens.empty()) line.resize(line.size() - 2);
  line += "]}";
}

// Puts the makers' tokens around a text, those that are there already not again. They stand for no bytes.
void surround(std::vector<EncodedToken>& tokens, const PostProcessor& around, size_t size) {
  auto is = [](int32_t id, const EncodedToken& token) { return token.id == id; };
  std::vector<EncodedToken> result;
  const size_t before = around.before.size();
  bool has_before =
      tokens.size() >= before && std::equal(around.before.begin(), around.before.end(), tokens.begin(), is);
  bool has_after = tokens.size() >= around.after.size() &&
                   std::equal(around.after.rbegin(), around.after.rend(), tokens.rbegin(), is);
  if (!has_before) {
    for (int32_t id : around.before) result.push_back({id, 0, 0});
  }
  result.insert(result.end(), tokens.begin(), tokens.end());
  if (!has_after) {
    for (int32_t id : around.after) result.push_back({id, size, size});
  }
  tokens = std::move(result);
}

template <typename Run>
int with_input(const std::filesystem::path& path, Run run) {
  std::ios::sync_with_stdio(false);
  if (path.empty() || path == "-") {
    run(std::cin);
    return kExitDone;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw input_error(
        fmt::format("{} cannot be read; name a file, or leave it out for standard input.", path.string()));
  }
  run(file);
  return kExitDone;
}

}  // namespace

void encode_texts(const TextEncodeArguments& arguments, std::istream& input, std::ostream& output) {
  if (arguments.special != "text" && arguments.special != "control") {
    throw input_error(fmt::format("--special is 'text' or 'control', not '{}'.", arguments.special));
  }
  TokenizerPtr tokenizer = load_tokenizer(arguments.tokenizer);
  // As text: what the file marks as special, which is what the reference calls split_special_tokens.
  const AddedTokens added = arguments.special == "text" ? AddedTokens::kNonSpecial : AddedTokens::kAll;
  std::string out;
  auto encode = [&](std::string_view text) {
    TextPiece piece{text, added};
    std::vector<EncodedToken> tokens = tokenizer->encode_pieces({&piece, 1});
    if (arguments.add_bos) surround(tokens, tokenizer->post_processor(), text.size());
    append_tokens(out, tokens);
    write_line(output, out);
  };
  if (arguments.raw) {
    encode(std::string(std::istreambuf_iterator<char>(input), {}));
  } else {
    for_each_input_line(input,
                        [&](std::string_view line, size_t number) { encode(read_text(line, number)); });
  }
}

void decode_texts(const TextDecodeArguments& arguments, std::istream& input, std::ostream& output) {
  TokenizerPtr tokenizer = load_tokenizer(arguments.tokenizer);
  std::string out;
  for_each_input_line(input, [&](std::string_view line, size_t number) {
    std::vector<int32_t> ids = read_ids(line, number);
    out += "{\"text\": ";
    append_json_string(out, to_valid_utf8(tokenizer->decode(ids, !arguments.skip_special)));
    if (arguments.stream) {
      Detokenizer detokenizer(tokenizer, !arguments.skip_special);
      out += ", \"deltas\": [";
      for (size_t i = 0; i < ids.size(); ++i) {
        if (i > 0) out += ", ";
        append_json_string(out, to_valid_utf8(detokenizer.push(ids[i])));
      }
      out += "], \"flush\": ";
      append_json_string(out, to_valid_utf8(detokenizer.finish()));
    }
    out += '}';
    write_line(output, out);
  });
}

int run_text_encode(const TextEncodeArguments& arguments) {
  return with_input(arguments.input, [&](std::istream& input) { encode_texts(arguments, input, std::cout); });
}

int run_text_decode(const TextDecodeArguments& arguments) {
  return with_input(arguments.input, [&](std::istream& input) { decode_texts(arguments, input, std::cout); });
}

}  // namespace stoker
