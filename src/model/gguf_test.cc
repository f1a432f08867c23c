#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "model/testing/gguf_builder.h"
#include "model/testing/models.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> as_span(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

std::string gguf_refusal(const std::string& bytes) {
  std::string sentence = input_error_of([&] { read_gguf(as_span(bytes), "model.gguf"); });
  EXPECT_THAT(sentence, HasSubstr("model.gguf"));
  return sentence;
}

// One value of every type, and three tensors.
GgufBuilder rich_builder() {
  GgufBuilder builder;
  builder.add_string("general.architecture", "llama");
  builder.add_number<uint8_t>("u8", GgufValueType::kUint8, 200);
  builder.add_number<int8_t>("i8", GgufValueType::kInt8, -3);
  builder.add_number<uint16_t>("u16", GgufValueType::kUint16, 60000);
  builder.add_number<int16_t>("i16", GgufValueType::kInt16, -30000);
  builder.add_uint("u32", 4000000000u);
  builder.add_number<int32_t>("i32", GgufValueType::kInt32, -2000000000);
  builder.add_float("f32", 1.5f);
  builder.add_bool("yes", true);
  builder.add_number<uint64_t>("u64", GgufValueType::kUint64, ~uint64_t{0});
  builder.add_number<int64_t>("i64", GgufValueType::kInt64, int64_t{-1} << 62);
  builder.add_number<double>("f64", GgufValueType::kFloat64, 0.1);
  builder.add_strings("words", {"a", "", "\xE2\x96\x81the"});
  builder.add_numbers<float>("scores", GgufValueType::kFloat32, {0.0f, -1.0f});
  builder.add_numbers<int32_t>("types", GgufValueType::kInt32, {1, 6, 3});
  builder.start_array("nested", GgufValueType::kArray, 1);
  builder.add_raw(std::string("\x00\0\0\0\x02\0\0\0\0\0\0\0ab", 14));
  builder.add_tensor("f32.weight", {2, 3}, GgufTensorType::kF32, std::string(24, 'f'));
  builder.add_tensor("q4_k.weight", {3, 512}, GgufTensorType::kQ4_K, std::string(3 * 2 * 144, 'q'));
  builder.add_tensor("q8_0.bias", {32}, GgufTensorType::kQ8_0, std::string(34, '8'));
  return builder;
}

TEST(Gguf, ReadsValuesOfEveryType) {
  TestFolder folder;
  GgufFile file(folder.write("model.gguf", rich_builder().build()));
  EXPECT_EQ(file.find_string("general.architecture"), "llama");
  EXPECT_EQ(file.find_int("u8"), 200);
  EXPECT_EQ(file.find_int("i8"), -3);
  EXPECT_EQ(file.find_int("u16"), 60000);
  EXPECT_EQ(file.find_int("i16"), -30000);
  EXPECT_EQ(file.find_int("u32"), 4000000000);
  EXPECT_EQ(file.find_int("i32"), -2000000000);
  EXPECT_EQ(file.find_int("i64"), int64_t{-1} << 62);
  EXPECT_EQ(file.find_double("f32"), 1.5);
  EXPECT_EQ(file.find_double("f64"), 0.1);
  EXPECT_EQ(file.find_double("u64"), 18446744073709551615.0);
  EXPECT_EQ(file.find_double("i8"), -3.0);
  EXPECT_EQ(file.find_bool("yes"), true);
  EXPECT_THAT(*file.find_strings("words"), ElementsAre("a", "", "\xE2\x96\x81the"));
  EXPECT_THAT(*file.find_doubles("scores"), ElementsAre(0.0, -1.0));
  EXPECT_THAT(*file.find_ints("types"), ElementsAre(1, 6, 3));
  EXPECT_EQ(file.find("nested")->count, 1u);
  EXPECT_EQ(file.find_int("absent"), std::nullopt);
  EXPECT_EQ(file.find_strings("absent"), std::nullopt);
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Gguf, GivesTensorsWithTheOutermostDimensionFirst) {
  TestFolder folder;
  GgufFile file(folder.write("model.gguf", rich_builder().build()));
  ASSERT_EQ(file.tensors().size(), 3u);
  const GgufTensor* tensor = file.find_tensor("q4_k.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_THAT(tensor->shape, ElementsAre(3, 512));
  EXPECT_EQ(tensor->data.size(), 864u);
  EXPECT_EQ(tensor->data[863], std::byte{'q'});
  EXPECT_EQ(file.find_tensor("q8_0.bias")->data[33], std::byte{'8'});
  EXPECT_STREQ(gguf_block_layout(GgufTensorType::kQ6_K)->name, "Q6_K");
  EXPECT_EQ(gguf_block_layout(static_cast<GgufTensorType>(4)), nullptr);
  EXPECT_EQ(file.find_tensor("absent"), nullptr);
}

TEST(Gguf, HonoursTheAlignmentOfTheFile) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.add_uint("general.alignment", 64);
  builder.add_tensor("a", {1}, GgufTensorType::kF32, "aaaa");
  builder.add_tensor("b", {1}, GgufTensorType::kF32, "bbbb");
  std::string bytes = builder.build();
  GgufContents contents = read_gguf(as_span(bytes), "model.gguf");
  EXPECT_EQ(contents.tensors[1].data.data() - contents.tensors[0].data.data(), 64);
  EXPECT_EQ(contents.tensors[1].data[0], std::byte{'b'});
}

TEST(Gguf, AskingForAnotherTypeNamesFileAndKey) {
  TestFolder folder;
  GgufFile file(folder.write("model.gguf", rich_builder().build()));
  EXPECT_THAT(input_error_of([&] { file.find_int("general.architecture"); }),
              AllOf(HasSubstr("model.gguf"), HasSubstr("'general.architecture' is of type string")));
  EXPECT_THAT(input_error_of([&] { file.find_int("u64"); }), HasSubstr("64 bits"));
  EXPECT_THAT(input_error_of([&] { file.find_int("types"); }), HasSubstr("array of int32"));
  EXPECT_THAT(input_error_of([&] { file.find_ints("scores"); }), HasSubstr("array of float32"));
  EXPECT_THAT(input_error_of([&] { file.find_ints("nested"); }), HasSubstr("array of array"));
  EXPECT_THAT(input_error_of([&] { file.find_doubles("words"); }), HasSubstr("array of string"));
  EXPECT_THAT(input_error_of([&] { file.find_strings("u8"); }), HasSubstr("uint8"));
  EXPECT_THAT(input_error_of([&] { file.find_bool("u8"); }), HasSubstr("true or false"));
  EXPECT_THAT(input_error_of([&] { file.find_string("yes"); }), HasSubstr("a string"));
  EXPECT_THAT(input_error_of([&] { file.require(file.find_int("llama.block_count"), "llama.block_count"); }),
              HasSubstr("no 'llama.block_count'"));
}

TEST(Gguf, RefusesOtherFiles) {
  EXPECT_THAT(gguf_refusal(""), HasSubstr("magic"));
  EXPECT_THAT(gguf_refusal("PK\x03\x04 something else"), HasSubstr("no GGUF file"));
  GgufBuilder builder;
  builder.version = 1;
  EXPECT_THAT(gguf_refusal(builder.build()), HasSubstr("is 1; Stoker reads 2 and 3"));
  builder.version = 0x03000000;
  EXPECT_THAT(gguf_refusal(builder.build()), HasSubstr("big-endian"));
  builder.version = 2;
  EXPECT_EQ(read_gguf(as_span(builder.build()), "model.gguf").version, 2u);
}

TEST(Gguf, RefusesBrokenMetadata) {
  auto refused = [](auto add) {
    GgufBuilder builder;
    add(builder);
    return gguf_refusal(builder.build());
  };
  EXPECT_THAT(refused([](GgufBuilder& b) {
                b.add_uint("k", 1);
                b.add_uint("k", 2);
              }),
              HasSubstr("'k' occurs twice"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.add_number("k", static_cast<GgufValueType>(13), 1.0); }),
              HasSubstr("unknown type 13"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.add_number<uint8_t>("k", GgufValueType::kBool, 2); }),
              HasSubstr("neither true nor false"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.start_array("k", GgufValueType::kFloat64, uint64_t{1} << 61); }),
              HasSubstr("claims 2305843009213693952 elements"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.start_array("k", GgufValueType::kString, uint64_t{1} << 63); }),
              HasSubstr("strings"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.start_array("k", GgufValueType::kArray, ~uint64_t{0}); }),
              HasSubstr("arrays"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.add_uint("general.alignment", 24); }),
              HasSubstr("power of two"));
  EXPECT_THAT(refused([](GgufBuilder& b) { b.add_string("general.alignment", "32"); }),
              HasSubstr("power of two"));
  EXPECT_THAT(refused([](GgufBuilder& b) {
                b.start_array("deep", GgufValueType::kArray, 1);
                for (int i = 0; i < 30; ++i) b.add_raw(std::string("\x09\0\0\0\x01\0\0\0\0\0\0\0", 12));
              }),
              HasSubstr("nests arrays"));
}

TEST(Gguf, RefusesBrokenTensors) {
  auto refused = [](auto add) {
    GgufBuilder builder;
    builder.add_tensor("first", {8}, GgufTensorType::kF32, std::string(32, '1'));
    add(builder);
    return gguf_refusal(builder.build());
  };
  auto f32 = GgufTensorType::kF32;
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("first", {1}, f32, 0); }), HasSubstr("twice"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {1}, f32, 0); }),
              HasSubstr("overlaps tensor 'first'"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {1}, f32, 4); }), HasSubstr("alignment 32"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {1}, f32, 32); }), HasSubstr("cut off"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {1}, f32, uint64_t{1} << 63); }),
              HasSubstr("cut off"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {}, f32, 0); }), HasSubstr("0 dimensions"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {1, 1, 1, 1, 1}, f32, 0); }),
              HasSubstr("5 dimensions"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {0}, f32, 0); }), HasSubstr("size 0"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {-1}, f32, 0); }), HasSubstr("size"));
  int64_t large = int64_t{1} << 40;
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {large, large}, f32, 0); }),
              HasSubstr("does not fit"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {4, 48}, GgufTensorType::kQ4_0, 0); }),
              HasSubstr("no multiple of the 32"));
  EXPECT_THAT(refused([&](GgufBuilder& b) { b.add_tensor_at("t", {1}, static_cast<GgufTensorType>(5), 0); }),
              HasSubstr("unknown type 5"));
}

TEST(Gguf, EveryPrefixIsRefusedAndNothingBehindItRead) {
  std::string whole = rich_builder().build();
  for (size_t size = 0; size < whole.size() - 40; ++size) {
    // A copy of just this size, so that the sanitizers see a read behind it.
    const auto* bytes = reinterpret_cast<const std::byte*>(whole.data());
    const std::vector<std::byte> cut(bytes, bytes + size);
    EXPECT_THROW(read_gguf(cut, "model.gguf"), Error) << size;
  }
}

TEST(Gguf, DamagedBytesGiveAnErrorOrAViewInsideTheFile) {
  std::string whole = rich_builder().build();
  RandomStream random({.run_seed = 5});
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (size_t edits = 1 + random.below(3); edits > 0; --edits) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    }
    try {
      GgufContents contents = read_gguf(as_span(bytes), "model.gguf");
      for (const GgufTensor& tensor : contents.tensors) {
        EXPECT_GE(tensor.data.data(), as_span(bytes).data());
        EXPECT_LE(tensor.data.data() + tensor.data.size(), as_span(bytes).data() + bytes.size());
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  }
}

}  // namespace
}  // namespace stoker
