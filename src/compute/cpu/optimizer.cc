#include "compute/cpu/optimizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string>

#include <fmt/core.h>
#include "base/error.h"
#include "compute/cpu/kernels.h"
#include "model/safetensors.h"

namespace stoker::cpu {
namespace {

constexpr int64_t kRunElements = 16384;
constexpr const char* kFile = "optimizer.safetensors";
constexpr const char* kMoments[] = {"exp_avg.", "exp_avg_sq."};

double sum_of_squares(const float* values, int64_t count) {
  double lanes[8] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i % 8] += static_cast<double>(values[i]) * values[i];
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

int64_t integer_of(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& key) {
  const auto it = file.metadata().find(key);
  int64_t value = 0;
  if (it == file.metadata().end() ||
      std::from_chars(it->second.data(), it->second.data() + it->second.size(), value).ec != std::errc()) {
    throw input_error(fmt::format("{} has no number '{}' in its metadata; it was not written by Stoker.",
                                  path.string(), key));
  }
  return value;
}

}  // namespace

AdamW::AdamW(const Weights& weights, const OptimizerOptions& options) {
  int64_t begin = 0;
  for (const TensorInfo& info : weights.manifest()) {
    const int64_t end = begin + info.element_count();
    for (; begin < end; begin += runs_.back().count) {
      runs_.push_back({begin, std::min(kRunElements, end - begin), info.shape.size() > 1});
    }
  }
  squares_.resize(runs_.size());
  reset(options);
}

void AdamW::reset(const OptimizerOptions& options) {
  options_ = options;
  steps_ = 0;
  size_t count = 0;
  for (const Run& run : runs_) count += static_cast<size_t>(run.count);
  moment1_.assign(count, 0.0f);
  moment2_.assign(count, 0.0f);
}

double AdamW::step(Weights& weights, Weights& gradients, double learning_rate, Parallel& parallel) {
  const int runs = static_cast<int>(runs_.size());
  float* gradient = gradients.values().data();
  parallel.for_each(runs,
                    [&](int r) { squares_[r] = sum_of_squares(gradient + runs_[r].begin, runs_[r].count); });
  double total = 0;
  for (const double square : squares_) total += square;
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm)) {
    std::ranges::fill(gradients.values(), 0.0f);
    return norm;
  }
  ++steps_;
  double scale = 1;
  if (options_.max_gradient_norm > 0) scale = std::min(1.0, options_.max_gradient_norm / (norm + 1e-6));
  const double steps = static_cast<double>(steps_);
  Kernels::AdamW update{static_cast<float>(learning_rate),
                        options_.beta1,
                        options_.beta2,
                        options_.epsilon,
                        0.0f,
                        static_cast<float>(1 - std::pow(static_cast<double>(options_.beta1), steps)),
                        static_cast<float>(1 - std::pow(static_cast<double>(options_.beta2), steps)),
                        static_cast<float>(scale)};
  parallel.for_each(runs, [&](int r) {
    const Run& run = runs_[r];
    Kernels::AdamW own = update;
    if (run.decay) own.weight_decay = options_.weight_decay;
    kernels().adamw(run.count, own, weights.values().data() + run.begin, gradient + run.begin,
                    moment1_.data() + run.begin, moment2_.data() + run.begin);
  });
  return norm;
}

void AdamW::save(const std::filesystem::path& folder, const Weights& weights) const {
  std::vector<TensorView> tensors;
  const std::span<const float> moments[] = {moment1_, moment2_};
  for (int i = 0; i < 2; ++i) {
    size_t begin = 0;
    for (const TensorInfo& info : weights.manifest()) {
      const size_t count = static_cast<size_t>(info.element_count());
      tensors.push_back({kMoments[i] + info.name, TensorType::kF32, info.shape,
                         std::as_bytes(moments[i].subspan(begin, count))});
      begin += count;
    }
  }
  write_safetensors(folder / kFile, tensors,
                    {{"steps", std::to_string(steps_)}, {"version", std::to_string(weights.version())}});
}

int64_t AdamW::restore(const std::filesystem::path& folder, const Weights& weights) {
  const std::filesystem::path path = folder / kFile;
  const SafetensorsFile file(path);
  const int64_t steps = integer_of(file, path, "steps");
  const int64_t version = integer_of(file, path, "version");
  std::vector<float> restored[] = {std::vector<float>(moment1_.size()), std::vector<float>(moment2_.size())};
  for (int i = 0; i < 2; ++i) {
    size_t begin = 0;
    for (const TensorInfo& info : weights.manifest()) {
      const TensorView* tensor = file.find(kMoments[i] + info.name);
      if (tensor == nullptr || tensor->shape != info.shape) {
        throw input_error(
            fmt::format("{} does not hold the optimizer state of this model: tensor '{}{}' is missing or has "
                        "another shape.",
                        path.string(), kMoments[i], info.name));
      }
      const size_t count = static_cast<size_t>(info.element_count());
      copy_to_float(*tensor, std::span(restored[i]).subspan(begin, count));
      begin += count;
    }
  }
  moment1_ = std::move(restored[0]);
  moment2_ = std::move(restored[1]);
  steps_ = steps;
  return version;
}

}  // namespace stoker::cpu
