#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace stoker {

// The GGUF container, version 2 and 3, little-endian (reference: ggml-org/ggml, docs/gguf.md): metadata by
// key, then tensors, some of them quantised in blocks.

// Type of a metadata value; the numbers are those of the file.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Type of a tensor's elements; the numbers are those of the file. Other types are read too, see
// gguf_block_layout.
enum class GgufTensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// How elements of a type lie in the file: `elements` of them, neighbours in the last dimension, in `bytes`.
struct GgufBlockLayout {
  const char* name;  // as ggml writes it: "Q4_K"
  int64_t elements;
  int64_t bytes;
};
// nullptr for a type that ggml has not, or no longer.
const GgufBlockLayout* gguf_block_layout(GgufTensorType type);

// A metadata value as it lies in the file.
struct GgufValue {
  std::string_view key;
  GgufValueType type = GgufValueType::kUint8;
  GgufValueType element_type = GgufValueType::kUint8;  // of an array
  uint64_t count = 1;                                  // elements of an array
  std::span<const std::byte> bytes;  // the value, or an array's elements; strings with their lengths
};

// A tensor in the file; `data` is a view, aligned as the file says (32 bytes where it does not).
struct GgufTensor {
  std::string_view name;
  GgufTensorType type = GgufTensorType::kF32;
  std::vector<int64_t> shape;  // outermost first, as in safetensors (the file lists it innermost first)
  std::span<const std::byte> data;
};

// What a GGUF file holds; views of its bytes.
struct GgufContents {
  uint32_t version = 0;
  std::vector<GgufValue> metadata;  // in the file's order
  std::vector<GgufTensor> tensors;  // in the file's order
};

// Reads the whole header of the file in `bytes`. Every length, count, type, offset and overlap is checked,
// nothing outside `bytes` is touched, and memory stays below a small factor of their size; throws
// Error(kInput) naming `what` and the place.
GgufContents read_gguf(std::span<const std::byte> bytes, const std::string& what);

// A memory-mapped, checked GGUF file. Views stay valid as long as the object lives.
//
//   GgufFile file("model.gguf");                                   // throws Error(kInput)
//   int64_t layers = file.require(file.find_int("llama.block_count"), "llama.block_count");
//   const GgufTensor* embedding = file.find_tensor("token_embd.weight");
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::string& name() const { return what_; }
  const std::vector<GgufValue>& metadata() const { return contents_.metadata; }
  const std::vector<GgufTensor>& tensors() const { return contents_.tensors; }
  // nullptr where there is none.
  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // The value of `key`, empty where there is none. A value of another type, or a whole number that does not
  // fit int64_t, throws Error(kInput) naming file and key. Numbers of any width are read; find_double takes
  // whole ones too. find_strings gives views.
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_double(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::optional<std::vector<int64_t>> find_ints(std::string_view key) const;
  std::optional<std::vector<double>> find_doubles(std::string_view key) const;
  std::optional<std::vector<std::string_view>> find_strings(std::string_view key) const;

  // The value, or Error(kInput) saying that the file has no `key`.
  template <typename T>
  T require(std::optional<T> value, std::string_view key) const {
    if (!value) throw_missing(key);
    return *std::move(value);
  }

 private:
  [[noreturn]] void throw_missing(std::string_view key) const;
  [[noreturn]] void throw_wrong_type(const GgufValue& value, const char* needed) const;
  const GgufValue* find_array(std::string_view key, const char* needed) const;

  std::string what_;
  MappedFile file_;
  GgufContents contents_;
};

}  // namespace stoker
