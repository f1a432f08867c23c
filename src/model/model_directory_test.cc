#include "model/model_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "model/float_types.h"
#include "model/safetensors.h"
#include "model/testing/models.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The tensors of `weights` as a mutable list to write a damaged model.safetensors from.
std::vector<TensorView> views(const Weights& weights) {
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    tensors.push_back({weights.manifest()[i].name, TensorType::kF32, weights.manifest()[i].shape,
                       std::as_bytes(weights.tensor(i))});
  }
  return tensors;
}

class ModelDirectoryTest : public testing::Test {
 protected:
  std::string refusal() {
    return input_error_of([&] { load_model_weights(folder_.path()); });
  }
  void write_tensors(const std::vector<TensorView>& tensors) {
    write_safetensors(folder_.path() / "model.safetensors", tensors, {{"format", "pt"}});
  }

  TestFolder folder_;
};

TEST_F(ModelDirectoryTest, SavedModelsLoadBitForBit) {
  for (const char* type : {"llama", "qwen2", "qwen3", "mistral"}) {
    for (bool tied : {false, true}) {
      ModelConfig config = tiny_config(type);
      config.tie_word_embeddings = tied;
      Weights weights = initialize_weights(config, 9);
      save_model(folder_.path(), weights);
      Weights loaded = load_model_weights(folder_.path());
      EXPECT_EQ(loaded.config(), config);
      EXPECT_EQ(loaded.digest(), weights.digest());
      EXPECT_EQ(load_model_config(folder_.path()), config);
    }
  }
  SafetensorsFile file(folder_.path() / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);  // tied: stored once
}

// The directories that transformers loaded for goldens/logits.json: what is written today is still the same.
// After a wanted change run this test with STOKER_WRITE_GOLDENS=1, then goldens/make.sh.
TEST_F(ModelDirectoryTest, ExportsAreThoseThatTransformersLoaded) {
  std::filesystem::path goldens = std::filesystem::path(STOKER_SOURCE_DIR) / "src" / "model" / "goldens";
  for (const char* type : {"llama", "qwen2", "qwen3"}) {
    Weights weights = golden_weights(type);
    if (std::getenv("STOKER_WRITE_GOLDENS") != nullptr) {
      std::filesystem::create_directories(goldens / type);
      save_model(goldens / type, weights);
    }
    save_model(folder_.path(), weights);
    for (const char* name : {"config.json", "generation_config.json"}) {
      EXPECT_EQ(read_file(folder_.path() / name), read_file(goldens / type / name)) << type;
    }
    EXPECT_TRUE(read_file(folder_.path() / "model.safetensors") ==
                read_file(goldens / type / "model.safetensors"));
    EXPECT_EQ(load_model_weights(goldens / type).digest(), weights.digest());
  }
}

TEST_F(ModelDirectoryTest, BrainFloatsAreConverted) {
  Weights weights = initialize_weights(tiny_config(), 4);
  for (float& value : weights.values()) {  // values that bfloat16 holds
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    bits &= 0xFFFF0000u;
    std::memcpy(&value, &bits, sizeof(bits));
  }
  save_model(folder_.path(), weights);
  std::vector<std::vector<uint16_t>> halves;
  std::vector<TensorView> tensors = views(weights);
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<uint16_t>& half = halves.emplace_back();
    for (float value : weights.tensor(i)) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      half.push_back(static_cast<uint16_t>(bits >> 16));
    }
    tensors[i].type = TensorType::kBF16;
    tensors[i].data = std::as_bytes(std::span(half));
  }
  write_tensors(tensors);
  EXPECT_EQ(load_model_weights(folder_.path()).digest(), weights.digest());
}

TEST_F(ModelDirectoryTest, CopiesTheTokenizerFiles) {
  TestFolder& target = folder_;
  std::filesystem::path source = target.path() / "source";
  std::filesystem::create_directory(source);
  Weights weights(tiny_config());
  EXPECT_THAT(input_error_of([&] { save_model(target.path(), weights, source); }),
              HasSubstr("tokenizer.json"));
  write_file_atomic(source / "tokenizer.json", "{}");
  write_file_atomic(source / "unrelated.txt", "x");
  save_model(target.path(), weights, source);
  EXPECT_EQ(read_file(target.path() / "tokenizer.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(target.path() / "unrelated.txt"));
  save_model(source, weights, source);  // in place: nothing to copy
  EXPECT_EQ(read_file(source / "tokenizer.json"), "{}");
}

TEST_F(ModelDirectoryTest, GenerationStopsAtTheTokensOfTheConfiguration) {
  ModelConfig config = tiny_config();
  config.eos_token_ids = {2, 3};
  save_model(folder_.path(), Weights(config));
  Json generation = Json::parse(read_file(folder_.path() / "generation_config.json"));
  EXPECT_EQ(generation.at("eos_token_id"), Json(Json::Array{2, 3}));
}

TEST_F(ModelDirectoryTest, GenerationKeepsTheKeysAndStopTokensOfTheSource) {
  std::filesystem::path source = folder_.path() / "source";
  std::filesystem::create_directory(source);
  write_file_atomic(source / "tokenizer.json", "{}");
  ModelConfig config = tiny_config();
  config.eos_token_ids = {2};
  config.bos_token_id = 1;
  auto saved = [&](const std::string& generation) {
    write_file_atomic(source / "generation_config.json", generation);
    save_model(folder_.path(), Weights(config), source);
    return Json::parse(read_file(folder_.path() / "generation_config.json"));
  };
  Json kept = saved(R"({"temperature": 0.7, "top_k": 20, "eos_token_id": [3, 2], "bos_token_id": 5})");
  EXPECT_EQ(kept.at("temperature"), Json(0.7));
  EXPECT_EQ(kept.at("top_k"), Json(20));
  EXPECT_EQ(kept.at("eos_token_id"), Json(Json::Array{3, 2}));
  EXPECT_EQ(kept.at("bos_token_id"), Json(1));
  EXPECT_EQ(saved(R"({"eos_token_id": 3})").at("eos_token_id"), Json(Json::Array{3, 2}));
  EXPECT_EQ(saved("{}").at("eos_token_id"), Json(2));
  for (const char* id : {"-1", "1000000", "\"2\"", "2.5"}) {
    EXPECT_THAT(input_error_of([&] { saved(std::string(R"({"eos_token_id": )") + id + "}"); }),
                AllOf(HasSubstr("generation_config.json"), HasSubstr(id)));
  }
}

TEST_F(ModelDirectoryTest, NamesWhatIsNotThere) {
  EXPECT_THAT(input_error_of([] { load_model_weights("/nonexistent/model"); }),
              AllOf(HasSubstr("/nonexistent/model"), HasSubstr("stoker init")));
  EXPECT_THAT(refusal(), HasSubstr("no config.json"));
  save_model(folder_.path(), Weights(tiny_config()));
  std::filesystem::remove(folder_.path() / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("no model.safetensors"));
  write_file_atomic(folder_.path() / "model.safetensors.index.json", "{}");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("index.json"), HasSubstr("weight_map")));
  write_file_atomic(folder_.path() / "config.json", "{\"model_type\": \"llama\",}");
  EXPECT_THAT(refusal(), HasSubstr("config.json"));
}

TEST_F(ModelDirectoryTest, NamesEveryTensorThatDoesNotFit) {
  Weights weights(tiny_config());
  save_model(folder_.path(), weights);
  std::vector<TensorView> tensors = views(weights);
  tensors[0].name = "transformer.wte.weight";
  tensors[2].shape = {8, 24};
  write_tensors(tensors);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("missing: model.embed_tokens.weight"),
                               HasSubstr("model.layers.0.self_attn.q_proj.weight is [8, 24], not [24, 8]"),
                               HasSubstr("unknown: transformer.wte.weight")));
  tensors = {};
  write_tensors(tensors);
  for (const TensorInfo& info : weights.manifest()) EXPECT_THAT(refusal(), HasSubstr(info.name));
}

TEST_F(ModelDirectoryTest, ShardsAreWrittenAndReadBack) {
  const Weights weights = initialize_weights(tiny_config("gemma3_text"), 3);
  save_model(folder_.path(), weights);
  save_model(folder_.path(), weights, {}, {.max_shard_bytes = 600});
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "model.safetensors"));
  const Json index = Json::parse(read_file(folder_.path() / "model.safetensors.index.json"));
  EXPECT_EQ(index.at("weight_map").as_object().size(), weights.manifest().size());
  EXPECT_EQ(index.at("metadata").at("total_size").as_int(), int64_t(weights.values().size_bytes()));
  int64_t last = 0, total = 0;
  const Weights loaded = load_model_weights(folder_.path(), [&](int64_t done, int64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, int64_t(weights.values().size()));
  EXPECT_EQ(loaded.digest(), weights.digest());
  save_model(folder_.path(), weights);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "model.safetensors.index.json"));
}

TEST_F(ModelDirectoryTest, AnIndexThatDoesNotFitItsShardsIsRefused) {
  const Weights weights = initialize_weights(tiny_config(), 3);
  save_model(folder_.path(), weights, {}, {.max_shard_bytes = 600});
  const auto path = folder_.path() / "model.safetensors.index.json";
  const Json index = Json::parse(read_file(path));
  const auto with_map = [&](const std::string& tensor, const Json& file) {
    Json changed = index;
    Json map = index.at("weight_map");
    map.set(tensor, file);
    changed.set("weight_map", std::move(map));
    write_file_atomic(path, changed.dump());
    return refusal();
  };
  const std::string norm = "model.norm.weight";
  EXPECT_THAT(with_map(norm, "../model.safetensors"), AllOf(HasSubstr(norm), HasSubstr("no file name")));
  EXPECT_THAT(with_map(norm, 3), HasSubstr("no file name"));
  EXPECT_THAT(with_map(norm, "absent.safetensors"), HasSubstr("absent.safetensors"));
  EXPECT_THAT(with_map(norm, "model-00001-of-00009.safetensors"), HasSubstr("model-00001"));
  EXPECT_THAT(with_map("model.norm.bias", index.at("weight_map").at(norm)), HasSubstr("model.norm.bias"));
}

TEST_F(ModelDirectoryTest, HalvesAreRoundedAndRead) {
  const Weights weights = initialize_weights(tiny_config(), 5);
  for (const TensorType type : {TensorType::kBF16, TensorType::kF16}) {
    save_model(folder_.path(), weights, {}, {.type = type});
    EXPECT_EQ(Json::parse(read_file(folder_.path() / "config.json")).at("torch_dtype").as_string(),
              type == TensorType::kF16 ? "float16" : "bfloat16");
    const Weights loaded = load_model_weights(folder_.path());
    for (size_t i = 0; i < weights.values().size(); ++i) {
      const float value = weights.values()[i];
      EXPECT_EQ(loaded.values()[i], type == TensorType::kF16 ? half_to_float(float_to_half(value))
                                                             : brain_to_float(float_to_brain(value)));
    }
  }
}

TEST_F(ModelDirectoryTest, NumbersThatAreNotFiniteAreRefused) {
  Weights weights = initialize_weights(tiny_config(), 5);
  for (const float broken : {NAN, INFINITY}) {
    weights.tensor("model.layers.1.mlp.up_proj.weight").back() = broken;
    save_model(folder_.path(), weights);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("model.layers.1.mlp.up_proj.weight"), HasSubstr("finite")));
  }
}

TEST_F(ModelDirectoryTest, CKP_11_ASecondNameForOneTensorIsAnError) {
  Weights weights = initialize_weights(tiny_config(), 1);
  save_model(folder_.path(), weights);
  std::vector<TensorView> tensors = views(weights);
  tensors.push_back(tensors.back());
  tensors.back().name = "lm_head.kernel";
  write_tensors(tensors);
  EXPECT_THAT(refusal(), HasSubstr("unknown: lm_head.kernel"));
}

TEST_F(ModelDirectoryTest, ATiedHeadMayBeStoredTwiceButNotDiffer) {
  ModelConfig config = tiny_config();
  config.tie_word_embeddings = true;
  Weights weights = initialize_weights(config, 1);
  save_model(folder_.path(), weights);
  std::vector<TensorView> tensors = views(weights);
  tensors.push_back(tensors[0]);
  tensors.back().name = "lm_head.weight";
  write_tensors(tensors);
  EXPECT_EQ(load_model_weights(folder_.path()).digest(), weights.digest());
  std::vector<float> other(weights.tensor(0).begin(), weights.tensor(0).end());
  other[3] += 1;
  tensors.back().data = std::as_bytes(std::span(other));
  write_tensors(tensors);
  EXPECT_THAT(refusal(), HasSubstr("tie_word_embeddings"));
}

TEST_F(ModelDirectoryTest, IntegersAreNoWeights) {
  Weights weights(tiny_config());
  save_model(folder_.path(), weights);
  std::vector<TensorView> tensors = views(weights);
  tensors[1].type = TensorType::kI32;
  write_tensors(tensors);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("model.safetensors"), HasSubstr("input_layernorm"), HasSubstr("I32")));
}

}  // namespace
}  // namespace stoker
