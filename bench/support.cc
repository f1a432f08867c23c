#include "support.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "compute/cpu/kernels.h"
#include "model/family.h"
#include "model/sizes.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace stoker {

double peak_gflops(Parallel& parallel) {
  constexpr int64_t kIterations = 200'000;
  std::vector<float> sinks(static_cast<size_t>(parallel.threads()) * 16);
  std::vector<int64_t> operations(static_cast<size_t>(parallel.threads()));
  const double seconds = best_seconds(0.6, [&] {
    parallel.for_each(parallel.threads(), [&](int thread) {
      const auto index = static_cast<size_t>(thread);
      operations[index] = cpu::kernels().peak_loop(kIterations, &sinks[index * 16]);
    });
  });
  double total = 0;
  for (int64_t count : operations) total += static_cast<double>(count);
  return total / seconds / 1e9;
}

ModelConfig demo_model() {
  Json tokenizer = build_tokenizer_json(builder_default_words());
  return model_config_of_size("1M",
                              Tokenizer::from_json(tokenizer, "the demo's tokenizer")->vocabulary_size());
}

ModelConfig small_model() {
  ModelConfig config{.vocab_size = 512,
                     .hidden_size = 256,
                     .num_hidden_layers = 4,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .head_dim = 64,
                     .intermediate_size = 768,
                     .max_position_embeddings = 512};
  apply_family(*find_family("qwen3"), config);
  config.tie_word_embeddings = true;
  return config;
}

ParameterSplit split_parameters(const ModelConfig& config) {
  const double head = static_cast<double>(config.vocab_size) * config.hidden_size;
  const int copies = config.tie_word_embeddings ? 1 : 2;
  return {.body = static_cast<double>(config.parameter_count()) - copies * head, .head = head};
}

Batch training_batch(int count, TrainingRow row, int32_t vocabulary) {
  Batch batch;
  for (int s = 0; s < count; ++s) {
    Segment segment;
    for (int i = 0; i < row.tokens; ++i) segment.tokens.push_back((s * 31 + i * 17) % vocabulary);
    for (int target = row.first_target; target < row.first_target + row.targets; ++target) {
      batch.segment.push_back(s);
      batch.offset.push_back(target - 1);
      batch.target.push_back(segment.tokens[static_cast<size_t>(target)]);
      batch.temperature.push_back(1.0f);
    }
    batch.segments.push_back(std::move(segment));
  }
  return batch;
}

WeightsPtr least_weights(int64_t version) {
  auto weights = std::make_shared<Weights>(ModelConfig{.vocab_size = 4,
                                                       .hidden_size = 4,
                                                       .num_hidden_layers = 1,
                                                       .num_attention_heads = 1,
                                                       .num_key_value_heads = 1,
                                                       .head_dim = 4,
                                                       .intermediate_size = 4,
                                                       .max_position_embeddings = 4});
  weights->set_version(version);
  return weights;
}

int bench_main(int argument_count, char** arguments, const char* program,
               const std::function<void(FigureReport& report)>& measure) {
  std::filesystem::path json;
  for (int i = 1; i < argument_count; ++i) {
    if (std::strcmp(arguments[i], "--json") == 0 && i + 1 < argument_count) {
      json = arguments[++i];
      continue;
    }
    fmt::print(stderr, "Usage: {} [--json FILE]\n", program);
    return 2;
  }
  try {
    FigureReport report;
    measure(report);
    if (!json.empty()) report.write(json);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 1;
  }
  return 0;
}

int bench_main_of_groups(int argument_count, char** arguments, const std::string& program,
                         const std::function<void(FigureReport& report, const std::string& only)>& measure) {
  std::string only;
  std::vector<char*> rest;
  for (int i = 0; i < argument_count; ++i) {
    if (std::strcmp(arguments[i], "--only") == 0 && i + 1 < argument_count) {
      only = arguments[++i];
    } else {
      rest.push_back(arguments[i]);
    }
  }
  return bench_main(static_cast<int>(rest.size()), rest.data(), (program + " [--only PREFIX]").c_str(),
                    [&](FigureReport& report) { measure(report, only); });
}

}  // namespace stoker
