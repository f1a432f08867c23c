#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace stoker {

// Writes the bytes of a GGUF file for tests; nothing is checked, so broken files can be made too.
//
//   GgufBuilder builder;
//   builder.add_string("general.architecture", "llama");
//   builder.add_tensor("token_embd.weight", {2, 3}, GgufTensorType::kF32, bytes);
//   std::string file = builder.build();
class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the tensors' data; "general.alignment" is not written

  template <typename T>
  void add_number(std::string_view key, GgufValueType type, T value) {
    start_value(key, type);
    append(metadata_, value);
  }
  void add_uint(std::string_view key, uint32_t value) { add_number(key, GgufValueType::kUint32, value); }
  void add_float(std::string_view key, float value) { add_number(key, GgufValueType::kFloat32, value); }
  void add_bool(std::string_view key, bool value) {
    add_number(key, GgufValueType::kBool, static_cast<uint8_t>(value));
  }
  void add_string(std::string_view key, std::string_view value) {
    start_value(key, GgufValueType::kString);
    append_string(metadata_, value);
  }
  void add_strings(std::string_view key, const std::vector<std::string>& values) {
    start_array(key, GgufValueType::kString, values.size());
    for (const std::string& value : values) append_string(metadata_, value);
  }
  template <typename T>
  void add_numbers(std::string_view key, GgufValueType type, const std::vector<T>& values) {
    start_array(key, type, values.size());
    for (T value : values) append(metadata_, value);
  }
  // The start of an array; its elements are the caller's to add with add_raw.
  void start_array(std::string_view key, GgufValueType type, uint64_t count) {
    start_value(key, GgufValueType::kArray);
    append(metadata_, static_cast<uint32_t>(type));
    append(metadata_, count);
  }
  void add_raw(std::string_view bytes) { metadata_ += bytes; }

  // `shape` outermost first; placed behind the tensors before it.
  void add_tensor(std::string_view name, const std::vector<int64_t>& shape, GgufTensorType type,
                  std::string_view data) {
    add_tensor_at(name, shape, type, data_.size());
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  }
  void add_tensor_at(std::string_view name, const std::vector<int64_t>& shape, GgufTensorType type,
                     uint64_t offset) {
    append_string(tensors_, name);
    append(tensors_, static_cast<uint32_t>(shape.size()));
    for (size_t d = shape.size(); d > 0; --d) append(tensors_, shape[d - 1]);
    append(tensors_, static_cast<uint32_t>(type));
    append(tensors_, offset);
    ++tensor_count_;
  }

  std::string build() const {
    std::string file = "GGUF";
    append(file, version);
    append(file, tensor_count_);
    append(file, value_count_);
    file += metadata_ + tensors_;
    if (tensor_count_ > 0) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }

 private:
  template <typename T>
  static void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void append_string(std::string& out, std::string_view text) {
    append(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  void start_value(std::string_view key, GgufValueType type) {
    append_string(metadata_, key);
    append(metadata_, static_cast<uint32_t>(type));
    ++value_count_;
  }

  std::string metadata_;
  std::string tensors_;
  std::string data_;
  uint64_t value_count_ = 0;
  uint64_t tensor_count_ = 0;
};

}  // namespace stoker
