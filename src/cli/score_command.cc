#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/json_rows.h"
#include "cli/model_path.h"
#include "cli/model_renderer.h"
#include "cli/session.h"
#include "engine/native_engine.h"
#include "model/gguf_tokenizer.h"
#include "text/post_processor.h"

namespace stoker {
namespace {

// Tokens of a row, and which of them count: never the first, which nothing precedes.
struct ScoredTokens {
  std::vector<int32_t> ids;
  std::vector<bool> counts;
};

class Scoring {
 public:
  Scoring(const ScoreArguments& arguments, RealExecutor& executor)
      : arguments_(arguments),
        compute_(compute_threads(arguments.threads)),
        tokenizer_(load_tokenizer(arguments.model)),
        engine_(executor, compute_, load_weights(arguments.model, *tokenizer_),
                {.max_cache_bytes = 16 << 20,
                 .compute_type = compute_type(arguments.compute_type),
                 .vocabulary_size = tokenizer_->vocabulary_size(),
                 .tokenizer = tokenizer_}) {}

  Task<> run(std::vector<JsonRow> rows) {
    double sum = 0;
    int64_t tokens = 0;
    for (const JsonRow& row : rows) {
      const ScoredTokens scored = read(row);
      Result<std::vector<float>> scores =
          co_await engine_.score(scored.ids, static_cast<float>(arguments_.temperature));
      if (!scores) {
        print_json_row(
            Json::object({{"failure", scores.failure().name()}, {"message", scores.failure().message}}));
        continue;
      }
      const auto [row_sum, row_tokens] = print(scored, *scores);
      sum += row_sum;
      tokens += row_tokens;
    }
    if (tokens > 0) {
      fmt::print(stderr, "{} tokens, mean log-probability {:.6f}, perplexity {:.4f}\n", tokens, sum / tokens,
                 std::exp(-sum / static_cast<double>(tokens)));
    }
    co_await engine_.close();
  }

 private:
  // Made when the first chat comes: models without a chat template score texts and tokens.
  const Renderer& renderer() {
    if (renderer_ == nullptr) {
      renderer_ = make_model_renderer(arguments_.model,
                                      chosen_chat_template(arguments_.chat_template, "--chat-template"),
                                      tokenizer_, {.list_tools = false});
    }
    return *renderer_;
  }

  ScoredTokens read(const JsonRow& row) {
    const int32_t vocabulary = tokenizer_->vocabulary_size();
    const auto text = [&](const char* member) {
      const Json* value = row.object.find(member);
      if (value == nullptr || !value->is_string()) {
        throw input_error(fmt::format("The {} needs a string as \"{}\".", row.place, member));
      }
      return value->as_string();
    };
    ScoredTokens scored;
    if (row.object.find("tokens") != nullptr) {
      refuse_unknown_members(row, {"tokens"});
      scored.ids = token_ids(row, "tokens", vocabulary);
    } else if (row.object.find("messages") != nullptr) {
      refuse_unknown_members(row, {"messages"});
      Result<RenderedTokens> rendered =
          renderer().render(messages_from_json(row.object.at("messages"), row.place), {}, false);
      if (!rendered) {
        throw input_error(
            fmt::format("The {} cannot be rendered: {}", row.place, rendered.failure().message));
      }
      scored.ids = rendered->ids;
      for (const Author author : rendered->authors) scored.counts.push_back(author == Author::kAssistant);
    } else if (row.object.find("prompt") != nullptr) {
      refuse_unknown_members(row, {"prompt", "completion"});
      scored.ids = tokenizer_->post_processor().surround(tokenizer_->encode(text("prompt")));
      scored.counts.assign(scored.ids.size(), false);
      const std::vector<int32_t> completion = tokenizer_->encode(text("completion"));
      scored.ids.insert(scored.ids.end(), completion.begin(), completion.end());
    } else {
      refuse_unknown_members(row, {"text"});
      scored.ids = tokenizer_->post_processor().surround(tokenizer_->encode(text("text")));
    }
    scored.counts.resize(scored.ids.size(), true);
    return scored;
  }

  // The row's sum and count.
  std::pair<double, int64_t> print(const ScoredTokens& scored, std::span<const float> scores) const {
    Json ids = Json::array(), log_probabilities = Json::array();
    double sum = 0;
    for (size_t i = 1; i < scored.ids.size(); ++i) {
      if (!scored.counts[i]) continue;
      ids.as_array().emplace_back(scored.ids[i]);
      log_probabilities.as_array().emplace_back(scores[i - 1]);
      sum += scores[i - 1];
    }
    const auto count = static_cast<int64_t>(ids.as_array().size());
    Json row = Json::object({{"tokens", count}, {"log_probability", sum}});
    if (count > 0) row.set("perplexity", std::exp(-sum / static_cast<double>(count)));
    row.set("ids", std::move(ids));
    row.set("log_probabilities", std::move(log_probabilities));
    print_json_row(row);
    return {sum, count};
  }

  const ScoreArguments& arguments_;
  ComputePool compute_;
  TokenizerPtr tokenizer_;
  std::unique_ptr<const Renderer> renderer_;
  NativeEngine engine_;
};

}  // namespace

int run_score(const ScoreArguments& arguments, InterruptWatch& interrupts) {
  if (!(arguments.temperature > 0) || !(arguments.temperature <= 100)) {
    throw input_error("--temperature must be above 0 and at most 100.");
  }
  compute_type(arguments.compute_type);
  check_model_path(arguments.model, "MODEL");
  std::vector<JsonRow> rows = read_json_rows(arguments.input);
  RealExecutor executor;
  Scoring scoring(arguments, executor);
  CancellationSource stop;
  auto delivery = interrupts.deliver_to(executor, [&stop] { stop.request(CancelReason::kShutdown); });
  try {
    run(executor, scoring.run(std::move(rows)), stop.token());
  } catch (const Cancelled&) {
    return kExitInterrupted;
  }
  return kExitDone;
}

}  // namespace stoker
