// Tokenizers: megabytes a second on one thread, 8 MB of distinct documents each encoded once, then decoded.
// The bridge: microseconds to render and encode a tool's result of 50 tokens behind conversations of several
// lengths.
//
//   text_bench [--json FILE] [--write FOLDER] [--peers FILE]
//
// --write leaves the documents in FOLDER, a JSON string a line, for bench/text_peers.py, which measures
// Hugging Face's tokenizers on them; --peers reads its figures as baselines. The public tokenizers of
// ../shared/data are measured, the demo's where they are absent. Times are processor time of the thread; of
// bridges, the median of many.

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/figure_report.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/utf8.h"
#include "text/template_renderer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCorpusBytes = 8'000'000;
constexpr size_t kDocumentBytes = 4096;
constexpr size_t kMessageBytes = 100;

using Documents = std::vector<std::string>;

fs::path shared_data() { return fs::path(STOKER_SOURCE_DIR).parent_path() / "shared" / "data"; }

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string read_gzip(const fs::path& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw input_error(fmt::format("{} cannot be opened; is it there?", path.string()));
  char buffer[1 << 16];
  for (int size = gzread(file, buffer, sizeof(buffer)); size > 0;
       size = gzread(file, buffer, sizeof(buffer))) {
    text.append(buffer, static_cast<size_t>(size));
  }
  gzclose(file);
  return text;
}

// Files of a tree with one of the endings, in the order of their paths.
std::vector<fs::path> files_with(const fs::path& folder, const std::vector<std::string>& endings) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    std::string ending = entry.path().extension().string();
    bool wanted = std::find(endings.begin(), endings.end(), ending) != endings.end();
    if (wanted && entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Documents of about `size` bytes, filled by `next` until the corpus is full.
template <typename Next>
Documents fill(size_t size, Next next) {
  Documents documents;
  for (size_t total = 0; total < kCorpusBytes; total += documents.back().size()) {
    std::string document;
    while (document.size() < size) document += next();
    documents.push_back(std::move(document));
  }
  return documents;
}

bool is_prose(const std::string& sentence) {
  auto plain = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == ' ' || c == ',' || c == '.';
  };
  auto count = static_cast<size_t>(std::count_if(sentence.begin(), sentence.end(), plain));
  return count * 100 >= sentence.size() * 95;
}

// Sentences of GSM8K, BFCL and tau2 in a random order: natural text, no document twice.
Documents english(size_t size) {
  std::vector<std::string> sentences;
  for (const char* part : {"gsm8k", "bfcl", "tau2"}) {
    for (const fs::path& file : files_with(shared_data() / part, {".jsonl", ".json", ".md"})) {
      std::string text = read_file(file);
      for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find_first_of(".\n", at), text.size() - 1) + 1;
        std::string sentence = text.substr(at, end - at);
        if (end - at > 20 && end - at < 400 && is_prose(sentence)) sentences.push_back(sentence);
        at = end;
      }
    }
  }
  if (sentences.empty()) sentences = {" A train leaves at nine and is back before noon."};
  RandomStream random({.run_seed = 1, .sample = static_cast<uint32_t>(size)});
  return fill(size, [&] { return sentences[random.below(sentences.size())]; });
}

// The C and C++ headers of this machine as they are, from the start of the tree on.
Documents code(size_t size) {
  Documents documents;
  size_t total = 0;
  for (const char* folder : {"/usr/include/boost", "/usr/include/c++", "/usr/include"}) {
    for (const fs::path& file : files_with(folder, {".h", ".hpp", ".ipp"})) {
      std::string text = read_file(file);
      for (size_t at = 0; at + size <= text.size() && total < kCorpusBytes; at += size) {
        documents.push_back(text.substr(at, size));
        total += size;
      }
    }
  }
  return documents;
}

std::string random_code_points(RandomStream& random, char32_t first, char32_t last, double skew) {
  // A few characters are much more frequent than the others, as in text.
  double position = std::pow(random.uniform(), skew);
  std::string text;
  append_utf8(text, first + static_cast<char32_t>(position * static_cast<double>(last - first + 1)));
  return text;
}

// Words of Gemma 3's vocabulary, the more frequent the lower their id (Zipf's law), with commas and full
// stops.
Documents chinese(size_t size) {
  std::vector<std::string> words;
  fs::path path = shared_data() / "tokenizers" / "gemma3" / "tokenizer.json.gz";
  if (fs::exists(path)) {
    Json json = Json::parse(read_gzip(path), path.string());
    for (const auto& [name, id] : json.at("model").at("vocab").as_object()) {
      bool is_chinese = name.size() % 3 == 0 && name >= "\u4E00" && name < "\u9FA6";
      for (size_t i = 0; is_chinese && i < name.size(); i += 3) {
        is_chinese = name.substr(i) >= "\u4E00" && name.substr(i) < "\u9FA6";
      }
      if (is_chinese) words.push_back(name);
    }
  }
  RandomStream random({.run_seed = 2, .sample = static_cast<uint32_t>(size)});
  return fill(size, [&] {
    std::string text;
    for (size_t i = 2 + random.below(8); i > 0; --i) {
      double rank = std::pow(static_cast<double>(words.size()), random.uniform());
      text += words.empty() ? random_code_points(random, 0x4E00, 0x9FA5, 2.0)
                            : words[static_cast<size_t>(rank) - 1];
    }
    return text + (random.below(4) == 0 ? "\u3002" : "\uFF0C");
  });
}

Documents base64(size_t size) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  RandomStream random({.run_seed = 3, .sample = static_cast<uint32_t>(size)});
  return fill(size, [&] {
    std::string line;
    for (int i = 0; i < 76; ++i) line += kDigits[random.below(64)];
    return line + "\n";
  });
}

Documents emoji(size_t size) {
  RandomStream random({.run_seed = 4, .sample = static_cast<uint32_t>(size)});
  return fill(size, [&] {
    std::string text = random_code_points(random, 0x1F300, 0x1F64F, 1.5);
    if (random.below(6) == 0) text += "\u200D" + random_code_points(random, 0x1F600, 0x1F64F, 1.0);
    if (random.below(10) == 0) text += " ";
    return text;
  });
}

std::map<std::string, Documents> corpora() {
  return {{"english", english(kDocumentBytes)}, {"code", code(kDocumentBytes)},
          {"chinese", chinese(kDocumentBytes)}, {"base64", base64(kDocumentBytes)},
          {"emoji", emoji(kDocumentBytes)},     {"messages", english(kMessageBytes)}};
}

struct NamedTokenizer {
  std::string name;
  TokenizerPtr tokenizer;
};

NamedTokenizer load(const std::string& name, FigureReport& report) {
  fs::path path = shared_data() / "tokenizers" / name / "tokenizer.json.gz";
  std::string text = read_gzip(path);
  double start = thread_seconds();
  TokenizerPtr tokenizer = Tokenizer::from_json(Json::parse(text, path.string()), path.string());
  report.add(name + "_load", thread_seconds() - start, "s");
  return {name, tokenizer};
}

std::vector<std::string> tokenizer_names() {
  std::vector<std::string> names;
  for (const char* name : {"qwen3", "llama3_1", "gemma3"}) {
    if (fs::exists(shared_data() / "tokenizers" / name / "tokenizer.json.gz")) names.push_back(name);
  }
  return names;
}

// Baselines of text_peers.py by figure name.
std::map<std::string, double> read_peers(const fs::path& path) {
  std::map<std::string, double> peers;
  if (path.empty()) return peers;
  for (const Json& figure : Json::parse(read_file(path), path.string()).as_array()) {
    peers[figure.at("name").as_string()] = figure.at("value").as_double();
  }
  return peers;
}

void measure(const NamedTokenizer& of, const std::string& kind, const Documents& documents,
             const std::map<std::string, double>& peers, FigureReport& report) {
  size_t bytes = 0;
  std::vector<std::vector<int32_t>> ids;
  ids.reserve(documents.size());
  double start = thread_seconds();
  for (const std::string& document : documents) {
    ids.push_back(of.tokenizer->encode_with_special(document));
    bytes += document.size();
  }
  double encode_seconds = thread_seconds() - start;
  size_t decoded = 0;
  start = thread_seconds();
  for (const std::vector<int32_t>& row : ids) decoded += of.tokenizer->decode(row).size();
  double decode_seconds = thread_seconds() - start;
  if (decoded == 0) throw internal_error("nothing was decoded");
  auto add = [&](const char* what, double seconds) {
    std::string name = of.name + "_" + kind + "_" + what;
    auto peer = peers.find(name);
    report.add({name,
                static_cast<double>(bytes) / 1e6 / seconds,
                "MB/s",
                peer == peers.end() ? std::nullopt : std::optional(peer->second),
                {}});
    if (peer != peers.end())
      report.add(name + "_ratio", static_cast<double>(bytes) / 1e6 / seconds / peer->second, "");
  };
  add("encode", encode_seconds);
  add("decode", decode_seconds);
}

// The public model whose template goes with each tokenizer, and what its special tokens are.
struct ModelTemplate {
  const char* tokenizer;
  const char* file;  // in ../shared/data/chat-templates
  SpecialTokenNames tokens;
};
const std::vector<ModelTemplate>& model_templates() {
  static const std::vector<ModelTemplate> all = {
      {"qwen3", "Qwen-Qwen3-0.6B.jinja", {{"eos_token", "<|im_end|>"}}},
      {"llama3_1",
       "meta-llama-Llama-3.1-8B-Instruct.jinja",
       {{"bos_token", "<|begin_of_text|>"}, {"eos_token", "<|eot_id|>"}}},
      {"gemma3",
       "google-gemma-3-chat_template.json",
       {{"bos_token", "<bos>"}, {"eos_token", "<end_of_turn>"}}}};
  return all;
}

// A conversation of at least `count` tokens that ends with the assistant's call of a tool: a question and
// its answer again and again.
std::vector<int32_t> conversation(const TemplateRenderer& renderer, const std::string& words, size_t count) {
  auto says = [](Role role, const std::string& content) { return Message{.role = role, .content = content}; };
  std::vector<Message> messages = {says(Role::kUser, words)};
  std::vector<int32_t> ids = renderer.render(messages, {}, true)->ids;
  auto append = [&](const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  std::vector<int32_t> answer = renderer.tokenizer().encode(words);
  std::vector<int32_t> call =
      renderer.tokenizer().encode("{\"name\": \"look\", \"parameters\": {\"at\": \"harbor\"}}");
  answer.push_back(renderer.stop_tokens()[0]);
  call.push_back(renderer.stop_tokens()[0]);
  while (ids.size() + call.size() < count) {
    append(answer);
    append(std::get<RenderedTokens>(*renderer.bridge(ids, messages)).ids);
  }
  append(call);
  return ids;
}

void measure_bridge(const NamedTokenizer& of, const ModelTemplate& model, FigureReport& report) {
  ChatTemplate chat_template = ChatTemplate::load(shared_data() / "chat-templates" / model.file);
  chat_template.set_special_tokens(model.tokens);
  TemplateRenderer renderer(of.tokenizer, std::move(chat_template));
  // Natural text: a question of about 300 tokens, a result of 50.
  std::string words = english(kMessageBytes * 12).front();
  words = words.substr(words.find_first_not_of(" \n"));  // blanks at its ends some templates trim
  words.resize(words.find_last_not_of(" \n") + 1);
  std::vector<int32_t> some = of.tokenizer->encode(words);
  some.resize(50);
  const std::vector<Message> result = {{.role = Role::kTool, .content = of.tokenizer->decode(some)}};
  // In turn, so that what else the machine does slows all lengths alike.
  std::map<size_t, std::vector<int32_t>> conversations;
  for (size_t count : {3'000, 30'000, 300'000}) conversations[count] = conversation(renderer, words, count);
  std::map<size_t, std::vector<double>> seconds;
  for (int i = 0; i < 401; ++i) {
    for (const auto& [count, ids] : conversations) {
      double start = thread_seconds();
      Result<Bridge> bridge = renderer.bridge(ids, result);
      seconds[count].push_back(thread_seconds() - start);
      if (!bridge || !std::holds_alternative<RenderedTokens>(*bridge))
        throw internal_error(fmt::format("{} rewrites a conversation that only grows", model.file));
    }
  }
  for (auto& [count, times] : seconds) {
    std::nth_element(times.begin(), times.begin() + 200, times.end());
    report.add(fmt::format("{}_bridge_{}", of.name, count), times[200] * 1e6, "us");
  }
  report.add(of.name + "_bridge_growth", seconds[300'000][200] / seconds[30'000][200], "");
}

void write_corpora(const fs::path& folder) {
  fs::create_directories(folder);
  for (const auto& [kind, documents] : corpora()) {
    std::string lines;
    for (const std::string& document : documents) lines += Json(document).dump() + "\n";
    write_file_atomic(folder / (kind + ".jsonl"), lines);
  }
}

int run(int argument_count, char** arguments) {
  std::map<std::string, fs::path> options = {{"--json", {}}, {"--write", {}}, {"--peers", {}}};
  for (int i = 1; i < argument_count; i += 2) {
    auto option = options.find(arguments[i]);
    if (option == options.end() || i + 1 == argument_count) {
      fmt::print(stderr, "Usage: text_bench [--json FILE] [--write FOLDER] [--peers FILE]\n");
      return 2;
    }
    option->second = arguments[i + 1];
  }
  if (!options["--write"].empty()) {
    write_corpora(options["--write"]);
    return 0;
  }
  FigureReport report;
  const std::map<std::string, Documents> texts = corpora();
  const std::map<std::string, double> peers = read_peers(options["--peers"]);
  auto measure_all = [&](const NamedTokenizer& of) {
    for (const auto& [kind, documents] : texts) measure(of, kind, documents, peers, report);
    for (const ModelTemplate& model : model_templates()) {
      if (model.tokenizer == of.name) measure_bridge(of, model, report);
    }
  };
  for (const std::string& name : tokenizer_names()) measure_all(load(name, report));
  if (tokenizer_names().empty()) {
    measure_all({"demo", Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "demo")});
  }
  if (!options["--json"].empty()) report.write(options["--json"]);
  return 0;
}

}  // namespace
}  // namespace stoker

int main(int argument_count, char** arguments) {
  try {
    return stoker::run(argument_count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "text_bench: {}\n", error.what());
    return 1;
  }
}
