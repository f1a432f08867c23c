#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/float_types.h"

namespace stoker {
namespace {

// The reference implementation refuses longer headers too.
constexpr uint64_t kLargestHeader = 100'000'000;

struct TypeInfo {
  TensorType type;
  const char* name;
  int64_t size;  // bytes an element
};
constexpr TypeInfo kTypes[] = {
    {TensorType::kF32, "F32", 4}, {TensorType::kF16, "F16", 2}, {TensorType::kBF16, "BF16", 2},
    {TensorType::kI32, "I32", 4}, {TensorType::kI64, "I64", 8}, {TensorType::kU8, "U8", 1},
};

const TypeInfo& type_info(TensorType type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return info;
  }
  throw internal_error("A tensor has a type that is no member of TensorType.");
}

// Number of elements, or -1 when it does not fit 62 bits or a size is negative.
int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0) return -1;
    if (__builtin_mul_overflow(count, size, &count) || count > (int64_t{1} << 59)) return -1;
  }
  return count;
}

// Reads the header of one file; every complaint names the file and the tensor.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, const MappedFile& file) : path_(path), file_(file) {}

  void read(std::vector<TensorView>& tensors, std::map<std::string, std::string>& metadata) {
    Json header = parse_header();
    std::set<std::string> names;
    for (const auto& [name, entry] : header.as_object()) {
      if (!names.insert(name).second) throw bad(fmt::format("tensor '{}' occurs twice", name));
      if (name == "__metadata__") {
        read_metadata(entry, metadata);
      } else {
        tensors.push_back(read_tensor(name, entry));
      }
    }
    std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
      if (a.data.data() != b.data.data()) return a.data.data() < b.data.data();
      if (a.data.size() != b.data.size()) return a.data.size() < b.data.size();
      return a.name < b.name;
    });
    check_layout(tensors);
  }

 private:
  Error bad(const std::string& sentence) const {
    return input_error(fmt::format("{}: {}; write or copy the file again.", path_.string(), sentence));
  }

  Json parse_header() {
    uint64_t length = 0;
    if (file_.size() < sizeof(length)) {
      throw bad(fmt::format("a safetensors file starts with 8 bytes of length, this one has {} bytes",
                            file_.size()));
    }
    std::memcpy(&length, file_.data(), sizeof(length));
    if (length > kLargestHeader || length > file_.size() - sizeof(length)) {
      throw bad(
          fmt::format("the header claims {} bytes, the file has {} (cut off, or not a safetensors file)",
                      length, file_.size()));
    }
    data_ = file_.data() + sizeof(length) + length;
    data_size_ = static_cast<int64_t>(file_.size() - sizeof(length) - length);
    std::string_view text(reinterpret_cast<const char*>(file_.data()) + sizeof(length), length);
    Result<Json> header = Json::try_parse(text, 8);
    if (!header) throw bad(fmt::format("the header is not JSON: {}", header.failure().message));
    if (!header->is_object()) throw bad(fmt::format("the header is {}, not an object", header->type_name()));
    return std::move(header).value();
  }

  void read_metadata(const Json& entry, std::map<std::string, std::string>& metadata) {
    if (!entry.is_object()) throw bad("'__metadata__' is not an object");
    for (const auto& [key, value] : entry.as_object()) {
      if (!value.is_string()) throw bad(fmt::format("metadata '{}' is not a string", key));
      metadata[key] = value.as_string();
    }
  }

  std::vector<int64_t> read_integers(const std::string& name, const Json& entry, const char* key) {
    const Json* list = entry.find(key);
    if (list == nullptr || !list->is_array())
      throw bad(fmt::format("tensor '{}' has no list '{}'", name, key));
    std::vector<int64_t> values;
    for (const Json& value : list->as_array()) {
      if (!value.is_integer() || value.as_double() < 0 || value.as_double() > 9e18) {
        throw bad(fmt::format("tensor '{}' has {} in '{}'", name, value.dump(), key));
      }
      values.push_back(value.as_int());
    }
    return values;
  }

  TensorType read_type(const std::string& name, const Json& entry) {
    const Json* type = entry.find("dtype");
    if (type == nullptr || !type->is_string()) throw bad(fmt::format("tensor '{}' has no 'dtype'", name));
    for (const TypeInfo& info : kTypes) {
      if (type->as_string() == info.name) return info.type;
    }
    throw input_error(
        fmt::format("{}: tensor '{}' has type {}; Stoker reads F32, F16, BF16, I32, I64 and U8.",
                    path_.string(), name, type->as_string()));
  }

  TensorView read_tensor(const std::string& name, const Json& entry) {
    if (!entry.is_object()) throw bad(fmt::format("the entry of tensor '{}' is not an object", name));
    TensorView view;
    view.name = name;
    view.type = read_type(name, entry);
    view.shape = read_integers(name, entry, "shape");
    std::vector<int64_t> offsets = read_integers(name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size_) {
      throw bad(fmt::format("tensor '{}' has data_offsets {} in a data area of {} bytes (cut off?)", name,
                            entry.at("data_offsets").dump(), data_size_));
    }
    int64_t count = element_count(view.shape);
    int64_t bytes = offsets[1] - offsets[0];
    if (count < 0 || count * type_info(view.type).size != bytes) {
      throw bad(fmt::format("tensor '{}' of shape {} and type {} does not fill its {} bytes", name,
                            entry.at("shape").dump(), type_info(view.type).name, bytes));
    }
    view.data = {data_ + offsets[0], static_cast<size_t>(bytes)};
    return view;
  }

  // Tensors in order of offset must follow one another without gap or overlap and fill the data area.
  void check_layout(const std::vector<TensorView>& tensors) {
    const std::byte* end = data_;
    for (const TensorView& tensor : tensors) {
      if (tensor.data.data() < end)
        throw bad(fmt::format("tensor '{}' overlaps the one before it", tensor.name));
      if (tensor.data.data() > end) throw bad(fmt::format("there is a gap before tensor '{}'", tensor.name));
      end = tensor.data.data() + tensor.data.size();
    }
    if (end != data_ + data_size_) {
      throw bad(fmt::format("{} bytes after the last tensor belong to none", data_ + data_size_ - end));
    }
  }

  const std::filesystem::path& path_;
  const MappedFile& file_;
  const std::byte* data_ = nullptr;
  int64_t data_size_ = 0;
};

std::string make_header(std::span<const TensorView> tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    Json entries = Json::object();
    for (const auto& [key, value] : metadata) entries.set(key, value);
    header.as_object().emplace_back("__metadata__", std::move(entries));
  }
  std::set<std::string> names = {"__metadata__"};
  int64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    int64_t bytes = static_cast<int64_t>(tensor.data.size());
    int64_t count = element_count(tensor.shape);
    if (!names.insert(tensor.name).second) {
      throw internal_error(fmt::format("Tensor '{}' was given twice to a safetensors file.", tensor.name));
    }
    if (count < 0 || count * type_info(tensor.type).size != bytes) {
      throw internal_error(
          fmt::format("Tensor '{}' has {} bytes, which do not fit its shape.", tensor.name, bytes));
    }
    Json shape = Json::array();
    for (int64_t size : tensor.shape) shape.as_array().push_back(size);
    header.as_object().emplace_back(tensor.name,
                                    Json::object({{"dtype", type_info(tensor.type).name},
                                                  {"shape", std::move(shape)},
                                                  {"data_offsets", Json::Array{offset, offset + bytes}}}));
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  HeaderReader(path, file_).read(tensors_, metadata_);
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  for (const TensorView& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::string header = make_header(tensors, metadata);
  uint64_t length = header.size();
  AtomicFile file(path);
  file.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  file.write(header);
  for (const TensorView& tensor : tensors) {
    file.write({reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()});
  }
  file.commit();
}

void copy_to_float(const TensorView& tensor, std::span<float> destination) {
  int64_t size = type_info(tensor.type).size;
  if (static_cast<int64_t>(tensor.data.size()) != size * static_cast<int64_t>(destination.size())) {
    throw input_error(fmt::format("Tensor '{}' has {} elements where {} are needed.", tensor.name,
                                  tensor.data.size() / size, destination.size()));
  }
  // The views of a mapped file need not be aligned, so elements are copied out.
  const std::byte* source = tensor.data.data();
  auto half_at = [source](size_t i) {
    uint16_t bits;
    std::memcpy(&bits, source + 2 * i, sizeof(bits));
    return bits;
  };
  switch (tensor.type) {
    case TensorType::kF32:
      if (!destination.empty()) std::memcpy(destination.data(), source, tensor.data.size());
      return;
    case TensorType::kBF16:
      for (size_t i = 0; i < destination.size(); ++i) {
        destination[i] = brain_to_float(half_at(i));
      }
      return;
    case TensorType::kF16:
      for (size_t i = 0; i < destination.size(); ++i) destination[i] = half_to_float(half_at(i));
      return;
    default:
      throw input_error(fmt::format("Tensor '{}' has type {}; weights must be F32, F16 or BF16.", tensor.name,
                                    type_info(tensor.type).name));
  }
}

}  // namespace stoker
