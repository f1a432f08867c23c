#include "cli/generate_batch.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "async/scope.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/json_rows.h"

namespace stoker {
namespace {

class KeepingSink final : public TokenSink {
 public:
  void accept(const SampledToken& token) override { tokens_.push_back(token); }
  const std::vector<SampledToken>& tokens() const { return tokens_; }

 private:
  std::vector<SampledToken> tokens_;
};

// The rows of a batch and what has come of them.
class BatchAnswers {
 public:
  BatchAnswers(const GenerateArguments& arguments, Engine& engine, const Renderer& renderer)
      : arguments_(arguments), engine_(engine), renderer_(renderer), rows_(read_json_rows(arguments.batch)) {
    for (const JsonRow& row : rows_) prompts_.push_back(prompt_of(row));
    answers_.resize(rows_.size() * static_cast<size_t>(arguments.samples));
  }

  size_t size() const { return answers_.size(); }

  Task<> answer(size_t index) {
    const size_t row = index / static_cast<size_t>(arguments_.samples);
    const auto sample = static_cast<uint32_t>(index % static_cast<size_t>(arguments_.samples));
    GenerateRequest request{
        .tokens = prompts_[row],
        .sampling = sampling_of(arguments_),
        .stop = {.max_tokens = arguments_.max_tokens,
                 .tokens = {renderer_.stop_tokens().begin(), renderer_.stop_tokens().end()}},
        .stream = {.run_seed = static_cast<uint64_t>(arguments_.seed),
                   .purpose = RandomPurpose::kEvaluate,
                   .task_ordinal = row,
                   .sample = sample}};
    KeepingSink sink;
    Result<Completion> completion = co_await engine_.generate(std::move(request), sink);
    answers_[index] = to_json(completion, sink.tokens());
    print_ready();
  }

 private:
  std::vector<int32_t> prompt_of(const JsonRow& row) const {
    const Tokenizer& tokenizer = renderer_.tokenizer();
    if (row.object.find("tokens") != nullptr) {
      refuse_unknown_members(row, {"tokens"});
      std::vector<int32_t> ids = token_ids(row, "tokens", tokenizer.vocabulary_size());
      if (ids.empty()) throw input_error(fmt::format("\"tokens\" in the {} is empty.", row.place));
      return ids;
    }
    std::vector<Message> messages;
    if (row.object.find("messages") != nullptr) {
      refuse_unknown_members(row, {"messages"});
      messages = messages_from_json(row.object.at("messages"), row.place);
    } else {
      refuse_unknown_members(row, {"prompt"});
      const Json* prompt = row.object.find("prompt");
      if (prompt == nullptr || !prompt->is_string()) {
        throw input_error(fmt::format("The {} needs a string as \"prompt\".", row.place));
      }
      messages.push_back({.role = Role::kUser, .content = prompt->as_string()});
    }
    Result<RenderedTokens> rendered = renderer_.render(messages, {}, true);
    if (!rendered) {
      throw input_error(fmt::format("The {} cannot be rendered: {}", row.place, rendered.failure().message));
    }
    return rendered->ids;
  }

  Json to_json(const Result<Completion>& completion, const std::vector<SampledToken>& tokens) const {
    Json ids = Json::array(), full = Json::array(), drawn = Json::array(), top = Json::array();
    std::vector<int32_t> plain;
    for (const SampledToken& token : tokens) {
      plain.push_back(token.id);
      ids.as_array().emplace_back(token.id);
      full.as_array().emplace_back(token.log_probability);
      drawn.as_array().emplace_back(token.drawn_log_probability);
      Json likeliest = Json::array();
      for (const TokenLogProbability& other : token.top) {
        likeliest.as_array().push_back(Json::array({Json(other.id), Json(other.log_probability)}));
      }
      top.as_array().push_back(std::move(likeliest));
    }
    Json row = Json::object();
    if (completion) {
      row.set("text", to_valid_utf8(completion->text));
      row.set("stop_reason", to_string(completion->stop_reason));
    } else {
      row.set("failure", completion.failure().name());
      row.set("message", completion.failure().message);
    }
    row.set("ids", std::move(ids));
    row.set("log_probabilities", std::move(full));
    row.set("drawn_log_probabilities", std::move(drawn));
    if (arguments_.top_log_probabilities > 0) row.set("top_log_probabilities", std::move(top));
    return row;
  }

  // In the order of the input, whoever ends first.
  void print_ready() {
    for (; printed_ < answers_.size() && answers_[printed_]; ++printed_) {
      print_json_row(*answers_[printed_]);
      answers_[printed_] = Json();
    }
  }

  const GenerateArguments& arguments_;
  Engine& engine_;
  const Renderer& renderer_;
  std::vector<JsonRow> rows_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<std::optional<Json>> answers_;
  size_t printed_ = 0;
};

LogitBias parse_bias(const std::string& text) {
  LogitBias bias;
  const size_t equals = text.find('=');
  const char* end = text.data() + text.size();
  if (equals != std::string::npos) {
    const auto id = std::from_chars(text.data(), text.data() + equals, bias.id);
    const auto value = std::from_chars(text.data() + equals + 1, end, bias.bias);
    if (id.ec == std::errc() && id.ptr == text.data() + equals && value.ec == std::errc() && value.ptr == end)
      return bias;
  }
  throw input_error(fmt::format("--logit-bias is '{}'; write ID=NUMBER, such as 42=-1.5.", text));
}

}  // namespace

SamplingParameters sampling_of(const GenerateArguments& arguments) {
  SamplingParameters sampling{.temperature = static_cast<float>(arguments.temperature),
                              .top_k = arguments.top_k,
                              .top_p = static_cast<float>(arguments.top_p),
                              .min_p = static_cast<float>(arguments.min_p),
                              .repetition_penalty = static_cast<float>(arguments.repetition_penalty),
                              .presence_penalty = static_cast<float>(arguments.presence_penalty),
                              .frequency_penalty = static_cast<float>(arguments.frequency_penalty),
                              .forbidden_tokens = arguments.forbidden_tokens,
                              .top_log_probabilities = arguments.top_log_probabilities};
  for (const std::string& bias : arguments.logit_biases) sampling.logit_bias.push_back(parse_bias(bias));
  return sampling;
}

Task<> generate_batch(const GenerateArguments& arguments, Engine& engine, const Renderer& renderer) {
  BatchAnswers answers(arguments, engine, renderer);
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (size_t i = 0; i < answers.size(); ++i) scope.spawn(answers.answer(i));
  co_await scope.join();
}

}  // namespace stoker
