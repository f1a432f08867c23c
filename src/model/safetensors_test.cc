#include "model/safetensors.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/testing/models.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string with_length(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file + header + data;
}

// Reads a file of these bytes.
class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    std::filesystem::path path = folder_.path() / "broken.safetensors";
    write_file_atomic(path, bytes);
    return path;
  }
  std::string refusal(const std::string& bytes) {
    std::filesystem::path path = write(bytes);
    std::string sentence = input_error_of([&] { SafetensorsFile file(path); });
    EXPECT_THAT(sentence, HasSubstr("broken.safetensors"));
    return sentence;
  }

  TestFolder folder_;
};

TEST_F(SafetensorsTest, WrittenFilesReadBackBitForBit) {
  std::vector<float> floats = {1.5f, -0.0f, NAN, 3e-42f, INFINITY, 2.0f};
  std::vector<uint8_t> bytes = {1, 2, 3};
  std::vector<int64_t> integers = {-1};
  std::vector<TensorView> tensors = {
      {"a.weight", TensorType::kF32, {2, 3}, std::as_bytes(std::span(floats))},
      {"odd", TensorType::kU8, {3}, std::as_bytes(std::span(bytes))},
      {"scalar", TensorType::kI64, {}, std::as_bytes(std::span(integers))},
      {"empty", TensorType::kF32, {0, 4}, {}},
  };
  std::filesystem::path path = folder_.path() / "w.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}, {"note", "\"quoted\"\n"}});
  SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(),
            (std::map<std::string, std::string>{{"format", "pt"}, {"note", "\"quoted\"\n"}}));
  ASSERT_EQ(file.tensors().size(), 4u);
  for (const TensorView& expected : tensors) {
    const TensorView* found = file.find(expected.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->shape, expected.shape);
    EXPECT_EQ(found->type, expected.type);
    EXPECT_TRUE(
        std::equal(found->data.begin(), found->data.end(), expected.data.begin(), expected.data.end()));
  }
  EXPECT_EQ(file.find("b.weight"), nullptr);
  std::vector<float> copy(6);
  copy_to_float(*file.find("a.weight"), copy);
  EXPECT_EQ(std::memcmp(copy.data(), floats.data(), sizeof(float) * 6), 0);
  // The data area starts on a multiple of eight bytes and no temporary file is left.
  uint64_t header = 0;
  std::memcpy(&header, read_file(path).data(), sizeof(header));
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(SafetensorsTest, ReadsTheExampleOfTheFormat) {
  std::string data("\x00\x00\x80\x3f\x00\x00\x00\x40", 8);
  SafetensorsFile file(
      write(with_length(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}    )", data)));
  std::vector<float> values(2);
  copy_to_float(*file.find("t"), values);
  EXPECT_EQ(values, (std::vector<float>{1.0f, 2.0f}));
}

TEST_F(SafetensorsTest, ConvertsHalvesExactly) {
  std::vector<uint16_t> bits = {0x3C00, 0xC000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0x7C00, 0xFC00, 0x8000};
  std::vector<float> expected = {1.0f,     -2.0f,    0x1p-24f,  -0x1p-24f, 1023 * 0x1p-24f,
                                 65504.0f, INFINITY, -INFINITY, -0.0f};
  std::vector<float> values(bits.size());
  copy_to_float({"h", TensorType::kF16, {9}, std::as_bytes(std::span(bits))}, values);
  EXPECT_EQ(std::memcmp(values.data(), expected.data(), sizeof(float) * 9), 0);
  std::vector<uint16_t> brain = {0x3F80, 0xC049, 0x0001};
  values.resize(3);
  copy_to_float({"b", TensorType::kBF16, {3}, std::as_bytes(std::span(brain))}, values);
  EXPECT_EQ(values, (std::vector<float>{1.0f, -3.140625f, 0x1p-133f}));
}

TEST_F(SafetensorsTest, EveryHalfAgreesWithTheCompiler) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    uint16_t half = static_cast<uint16_t>(bits);
    if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) continue;  // not a number
    float value = 0;
    copy_to_float({"h", TensorType::kF16, {1}, std::as_bytes(std::span(&half, 1))}, {&value, 1});
    _Float16 reference;
    std::memcpy(&reference, &half, sizeof(half));
    ASSERT_EQ(value, static_cast<float>(reference)) << bits;
  }
}

TEST_F(SafetensorsTest, OtherTypesAndSizesAreNoWeights) {
  std::vector<int32_t> integers = {1, 2};
  std::vector<float> values(2);
  TensorView view{"ids", TensorType::kI32, {2}, std::as_bytes(std::span(integers))};
  EXPECT_THAT(input_error_of([&] { copy_to_float(view, values); }),
              AllOf(HasSubstr("'ids'"), HasSubstr("I32")));
  view.type = TensorType::kF32;
  EXPECT_THAT(input_error_of([&] { copy_to_float(view, std::span(values).first(1)); }),
              HasSubstr("2 elements"));
}

TEST_F(SafetensorsTest, RefusesBrokenFilesByName) {
  std::string good = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_THAT(refusal(""), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal("abc"), HasSubstr("3 bytes"));
  EXPECT_THAT(refusal(std::string(8, '\xff')), HasSubstr("18446744073709551615"));
  EXPECT_THAT(refusal(with_length(good, "1234567")), AllOf(HasSubstr("'t'"), HasSubstr("cut off")));
  EXPECT_THAT(refusal(with_length(good, "123456789")), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(refusal(with_length(good.substr(0, 30), "12345678")), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(with_length("[1]", "")), HasSubstr("array"));
  EXPECT_THAT(refusal(with_length(R"({"t":3})", "")), HasSubstr("'t'"));
}

TEST_F(SafetensorsTest, RefusesContradictoryHeaders) {
  auto header = [](const char* entry) {
    return with_length(fmt::format(R"({{"t":{}}})", entry), "12345678");
  };
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})")),
              HasSubstr("does not fill"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]})")), HasSubstr("F64"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})")),
              HasSubstr("data_offsets"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})")),
              HasSubstr("data_offsets"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})")), HasSubstr("-2"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})")), HasSubstr("'shape'"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","data_offsets":[0,8]})")), HasSubstr("no list 'shape'"));
  EXPECT_THAT(refusal(header(R"({"shape":[2],"data_offsets":[0,8]})")), HasSubstr("no 'dtype'"));
  EXPECT_THAT(
      refusal(header(R"({"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]})")),
      HasSubstr("does not fill"));
  EXPECT_THAT(refusal(header(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})")), HasSubstr("gap"));
  EXPECT_THAT(refusal(with_length(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                  R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                  "12345678")),
              HasSubstr("overlaps"));
}

TEST_F(SafetensorsTest, CKP_11_TwoEntriesOfOneNameAreAnError) {
  EXPECT_THAT(refusal(with_length(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                  R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                  "12345678")),
              HasSubstr("'a' occurs twice"));
}

TEST_F(SafetensorsTest, NoSingleDamagedByteCrashes) {
  std::vector<float> floats = {1, 2, 3, 4};
  std::filesystem::path path = folder_.path() / "w.safetensors";
  write_safetensors(
      path, std::vector<TensorView>{{"a", TensorType::kF32, {4}, std::as_bytes(std::span(floats))}}, {});
  std::string good = read_file(path);
  RandomStream random({.run_seed = 5});
  int read = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bad = good;
    bad[random.below(bad.size())] = static_cast<char>(random.below(256));
    if (round % 3 == 0) bad.resize(random.below(bad.size() + 1));
    try {
      SafetensorsFile file(write(bad));
      for (const TensorView& tensor : file.tensors()) {
        std::vector<std::byte> copy(tensor.data.begin(), tensor.data.end());
        EXPECT_EQ(copy.size(), 16u);
      }
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
    }
  }
  EXPECT_GT(read, 30);   // damage to the data is not seen here
  EXPECT_LT(read, 970);  // damage to the header is
}

TEST_F(SafetensorsTest, WritingRefusesNonsenseAndMissingFolders) {
  std::vector<float> floats = {1, 2};
  TensorView view{"a", TensorType::kF32, {2}, std::as_bytes(std::span(floats))};
  std::filesystem::path path = folder_.path() / "w.safetensors";
  EXPECT_THROW(write_safetensors(path, std::vector<TensorView>{view, view}, {}), Error);
  view.shape = {3};
  EXPECT_THROW(write_safetensors(path, std::vector<TensorView>{view}, {}), Error);
  EXPECT_FALSE(std::filesystem::exists(path));
  try {
    write_safetensors(folder_.path() / "no" / "w.safetensors", {}, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("no/w.safetensors"));
  }
}

}  // namespace
}  // namespace stoker
