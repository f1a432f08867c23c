#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoker {

// The safetensors format (reference: huggingface/safetensors, "Format"). Little-endian, row-major.
enum class TensorType { kF32, kF16, kBF16, kI32, kI64, kU8 };

// One tensor to write, or one found in a file; `data` is a view.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// A memory-mapped, validated file. Views stay valid as long as the object lives.
class SafetensorsFile {
 public:
  // Header length, JSON, offsets, sizes and overlaps are checked before anything is touched; throws
  // Error(kInput).
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<TensorView>& tensors() const { return tensors_; }  // in order of their offset
  const TensorView* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Writes beside and renames. Metadata should hold {"format": "pt"} for transformers.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

// Copies a float tensor of any float type into float32; throws Error(kInput) for other types or sizes.
void copy_to_float(const TensorView& tensor, std::span<float> destination);

}  // namespace stoker
