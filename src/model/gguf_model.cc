#include "model/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/family.h"
#include "model/gguf_quantization.h"
#include "model/rope.h"

namespace stoker {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

// Keys of an architecture (behind "llama." and so on) that are read below, or that repeat what others say.
constexpr std::string_view kGgufKeys[] = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.key_length_swa",
    "attention.value_length_swa",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.causal",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "tensor_data_layout",
};

// Reads the keys of one architecture; complaints name the file and the key.
class GgufConfigReader {
 public:
  GgufConfigReader(const GgufFile& file, const ModelFamily& family) : file_(file), family_(family) {}

  ModelConfig read() {
    refuse_unknown();
    apply_family(family_, config_);
    read_sizes();
    read_rope();
    read_sliding();
    if (family_.gemma) read_gemma();
    read_tokens();
    try {
      validate(config_);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", file_.name(), error.what()));
    }
    return config_;
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.gguf, name); }

  Error bad(std::string_view name, const std::string& sentence) const {
    return input_error(fmt::format("{}: key '{}' {}", file_.name(), name, sentence));
  }

  std::optional<int64_t> find_integer(std::string_view name) const { return file_.find_int(key(name)); }
  int32_t to_int32(std::string_view name, int64_t value) const {
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
      throw bad(name, fmt::format("is {}, too large.", value));
    }
    return static_cast<int32_t>(value);
  }
  int32_t integer(std::string_view name) const {
    return to_int32(key(name), file_.require(find_integer(name), key(name)));
  }
  int32_t integer(std::string_view name, int32_t absent) const {
    return to_int32(key(name), find_integer(name).value_or(absent));
  }
  float number(std::string_view name, float absent) const {
    return static_cast<float>(file_.find_double(key(name)).value_or(absent));
  }

  void refuse_unknown() const {
    const std::string prefix = key("");
    for (const GgufValue& value : file_.metadata()) {
      if (!value.key.starts_with(prefix)) continue;
      const std::string_view name = value.key.substr(prefix.size());
      if (std::ranges::find(kGgufKeys, name) != std::end(kGgufKeys)) continue;
      throw bad(value.key,
                "is not known to Stoker, which cannot tell whether it changes what the model "
                "computes.");
    }
  }

  void read_sizes() {
    config_.hidden_size = integer("embedding_length");
    config_.num_hidden_layers = integer("block_count");
    config_.intermediate_size = integer("feed_forward_length");
    config_.max_position_embeddings = integer("context_length");
    config_.num_attention_heads = integer("attention.head_count");
    config_.num_key_value_heads = integer("attention.head_count_kv", config_.num_attention_heads);
    const int32_t heads = config_.num_attention_heads;
    config_.head_dim = integer("attention.key_length", heads > 0 ? config_.hidden_size / heads : 0);
    for (const char* name : {"attention.value_length", "rope.dimension_count", "attention.key_length_swa",
                             "attention.value_length_swa", "rope.dimension_count_swa"}) {
      if (integer(name, config_.head_dim) == config_.head_dim) continue;
      throw bad(key(name),
                fmt::format("is not the key_length of {}; Stoker has one size of heads and rotates "
                            "them whole.",
                            config_.head_dim));
    }
    config_.rms_norm_eps = number("attention.layer_norm_rms_epsilon", 1e-6f);
    const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2) {
      throw input_error(fmt::format("{}: there is no matrix 'token_embd.weight'.", file_.name()));
    }
    config_.vocab_size = to_int32("token_embd.weight", embedding->shape[0]);
    config_.tie_word_embeddings = file_.find_tensor("output.weight") == nullptr;
  }

  void read_rope() {
    config_.rope_theta = number("rope.freq_base", family_.rope_theta);
    if (family_.rope_local_theta != 0) {
      config_.rope_local_theta = number("rope.freq_base_swa", family_.rope_local_theta);
    }
    RopeScaling& scaling = config_.rope_scaling;
    const std::string type(file_.find_string(key("rope.scaling.type")).value_or("none"));
    if (type == "linear") {
      scaling.type = RopeScalingType::kLinear;
    } else if (type == "yarn") {
      scaling.type = RopeScalingType::kYarn;
    } else if (type != "none") {
      throw bad(key("rope.scaling.type"),
                fmt::format("is '{}'; Stoker supports 'none', 'linear' and 'yarn'.", type));
    }
    if (scaling.type != RopeScalingType::kNone) {
      scaling.factor = static_cast<float>(
          file_.require(file_.find_double(key("rope.scaling.factor")), key("rope.scaling.factor")));
    }
    if (scaling.type == RopeScalingType::kYarn) {
      scaling.beta_fast = number("rope.scaling.yarn_beta_fast", 32);
      scaling.beta_slow = number("rope.scaling.yarn_beta_slow", 1);
      // llama.cpp's attn_factor multiplies the factor of the paper.
      scaling.attention_factor =
          yarn_attention_factor(scaling.factor) * number("rope.scaling.attn_factor", 1);
      scaling.original_max_position_embeddings = integer("rope.scaling.original_context_length");
    }
    read_rope_factors();
  }

  // Llama 3.1's scaling lies in the file as one divisor a frequency. They are those of its published numbers,
  // or the file is refused.
  void read_rope_factors() {
    const GgufTensor* tensor = file_.find_tensor(kRopeFactors);
    if (tensor == nullptr) return;
    const auto half = static_cast<size_t>(std::max(config_.head_dim, 0) / 2);
    if (tensor->type != GgufTensorType::kF32 || tensor->data.size() != half * sizeof(float) || half == 0) {
      throw input_error(fmt::format("{}: tensor '{}' is not head_dim / 2 numbers of type F32.", file_.name(),
                                    kRopeFactors));
    }
    std::vector<float> divisors(half);
    dequantize(tensor->type, tensor->data, divisors);
    ModelConfig plain = config_, scaled = config_;
    plain.rope_scaling = {};
    scaled.rope_scaling = {.type = RopeScalingType::kLlama3,
                           .factor = *std::ranges::max_element(divisors),
                           .original_max_position_embeddings = 8192,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4};
    const std::vector<double> before = rope_frequencies(plain), after = rope_frequencies(scaled);
    for (size_t i = 0; i < half; ++i) {
      const double divisor = before[i] / after[i];
      if (std::abs(divisors[i] - divisor) <= 1e-4 * divisor) continue;
      throw input_error(
          fmt::format("{}: tensor '{}' scales rotary frequencies in another way than Llama 3.1, "
                      "which Stoker does not support.",
                      file_.name(), kRopeFactors));
    }
    config_.rope_scaling = scaled.rope_scaling;
  }

  void read_sliding() {
    const int32_t window = integer("attention.sliding_window", 0);
    if (window == 0 || family_.global_every == 0) {
      if (window != 0) throw bad(key("attention.sliding_window"), "is set, which this family has not.");
      return;
    }
    int32_t every = family_.global_every;
    const std::string pattern = key("attention.sliding_window_pattern");
    if (const GgufValue* value = file_.find(pattern); value != nullptr) {
      if (value->type == GgufValueType::kArray) {
        throw bad(pattern, "lists layers one by one; Stoker reads a number of layers.");
      }
      every = integer("attention.sliding_window_pattern");
      if (every < 1) throw bad(pattern, "must be above 0.");
    }
    for (int32_t l = 0; l < std::clamp(config_.num_hidden_layers, 0, 4096); ++l) {
      config_.sliding_layers.push_back((l + 1) % every != 0);
    }
    const bool slides = std::ranges::find(config_.sliding_layers, true) != config_.sliding_layers.end();
    if (!slides) config_.sliding_layers.clear();
    config_.sliding_window = slides ? window : 0;
  }

  void read_gemma() {
    // llama.cpp knows the two models whose scores are scaled by width over heads by their number of layers.
    const bool largest = config_.num_hidden_layers == (config_.qk_norm ? 62 : 46);
    const int32_t heads = config_.num_attention_heads;
    config_.query_pre_attn_scalar =
        static_cast<float>(largest && heads > 0 ? config_.hidden_size / heads : config_.head_dim);
    config_.attn_logit_softcapping = number("attn_logit_softcapping", family_.attn_logit_softcapping);
    config_.final_logit_softcapping = number("final_logit_softcapping", family_.final_logit_softcapping);
  }

  int32_t token(std::string_view name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}", name);
    return to_int32(key, file_.find_int(key).value_or(-1));
  }

  void read_tokens() {
    config_.bos_token_id = token("bos_token_id");
    config_.pad_token_id = token("padding_token_id");
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
      const int32_t id = token(name);
      if (id < 0 || std::ranges::find(config_.eos_token_ids, id) != config_.eos_token_ids.end()) continue;
      config_.eos_token_ids.push_back(id);
    }
  }

  const GgufFile& file_;
  const ModelFamily& family_;
  ModelConfig config_;
};

struct NamePair {
  std::string_view gguf, hugging_face;
};
constexpr NamePair kModelNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};
// Behind "blk.N." and "model.layers.N.".
constexpr NamePair kLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
};

// Hugging Face's name of a tensor; its own, which no manifest has, where there is none.
std::string hugging_face_name(std::string_view name, const ModelConfig& config) {
  for (const NamePair& pair : kModelNames) {
    if (name == pair.gguf) return std::string(pair.hugging_face);
  }
  if (!name.starts_with("blk.")) return std::string(name);
  const size_t dot = name.find('.', 4);
  if (dot == std::string_view::npos) return std::string(name);
  const std::string_view layer = name.substr(4, dot - 4), rest = name.substr(dot + 1);
  const auto full = [&](std::string_view suffix) { return fmt::format("model.layers.{}.{}", layer, suffix); };
  if (rest == "ffn_norm.weight") {
    return full(config.sandwich_norm ? "pre_feedforward_layernorm.weight"
                                     : "post_attention_layernorm.weight");
  }
  for (const NamePair& pair : kLayerNames) {
    if (rest == pair.gguf) return full(pair.hugging_face);
  }
  return std::string(name);
}

class GgufSource final : public TensorSource {
 public:
  GgufSource(const GgufFile& file, const ModelConfig& config) : file_(file), config_(config) {
    for (const GgufTensor& tensor : file.tensors()) {
      if (tensor.name == kRopeFactors) continue;
      tensors_.push_back({hugging_face_name(tensor.name, config), tensor.shape});
      sources_.push_back(&tensor);
    }
  }

  const std::string& name() const override { return file_.name(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }

  void read(size_t index, std::span<float> destination) const override {
    const GgufTensor& tensor = *sources_[index];
    const GgufBlockLayout* layout = gguf_block_layout(tensor.type);
    if (!can_dequantize(tensor.type)) {
      throw input_error(
          fmt::format("tensor '{}' has type {}; Stoker reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                      "Q4_K, Q5_K and "
                      "Q6_K. Convert the file to one of them.",
                      tensor.name, layout != nullptr ? layout->name : "unknown"));
    }
    dequantize(tensor.type, tensor.data, destination);
    if (config_.model_type == "llama") restore_rows(tensor.name, destination);
    if (config_.norm_plus_one && tensor.name.ends_with("norm.weight")) {
      for (float& value : destination) value -= 1.0f;
    }
  }

 private:
  // llama.cpp rotates neighbours where Hugging Face rotates halves of a head: row 2 i + j of a head there is
  // row j d/2 + i here.
  void restore_rows(std::string_view name, std::span<float> matrix) const {
    if (!name.ends_with("attn_q.weight") && !name.ends_with("attn_k.weight")) return;
    const size_t width = static_cast<size_t>(config_.hidden_size), d = static_cast<size_t>(config_.head_dim);
    std::vector<float> head(d * width);
    for (size_t begin = 0; begin < matrix.size(); begin += head.size()) {
      std::copy_n(matrix.begin() + static_cast<std::ptrdiff_t>(begin), head.size(), head.begin());
      for (size_t row = 0; row < d; ++row) {
        std::copy_n(
            head.begin() + static_cast<std::ptrdiff_t>(row * width), width,
            matrix.begin() + static_cast<std::ptrdiff_t>(begin + (row % 2 * (d / 2) + row / 2) * width));
      }
    }
  }

  const GgufFile& file_;
  ModelConfig config_;
  std::vector<TensorInfo> tensors_;
  std::vector<const GgufTensor*> sources_;
};

}  // namespace

ModelConfig gguf_model_config(const GgufFile& file) {
  const std::string key = "general.architecture";
  const std::string architecture(file.require(file.find_string(key), key));
  const ModelFamily* family = find_gguf_family(architecture);
  if (family == nullptr) {
    throw input_error(
        fmt::format("{}: key '{}' is '{}'; Stoker supports llama, qwen2, qwen3, gemma2 and gemma3.",
                    file.name(), key, architecture));
  }
  return GgufConfigReader(file, *family).read();
}

std::unique_ptr<TensorSource> open_gguf_tensors(const GgufFile& file, const ModelConfig& config) {
  return std::make_unique<GgufSource>(file, config);
}

}  // namespace stoker
