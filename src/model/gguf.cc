#include "model/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>

#include "base/error.h"

namespace stoker {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kLargestAlignment = 1 << 20;
constexpr uint32_t kMostDimensions = 4;  // ggml's GGML_MAX_DIMS
constexpr int kDeepestArray = 8;

struct TensorTypeInfo {
  uint32_t type;
  GgufBlockLayout layout;
};
constexpr TensorTypeInfo kTensorTypes[] = {
    {0, {"F32", 1, 4}},         {1, {"F16", 1, 2}},         {2, {"Q4_0", 32, 18}},
    {3, {"Q4_1", 32, 20}},      {6, {"Q5_0", 32, 22}},      {7, {"Q5_1", 32, 24}},
    {8, {"Q8_0", 32, 34}},      {9, {"Q8_1", 32, 36}},      {10, {"Q2_K", 256, 84}},
    {11, {"Q3_K", 256, 110}},   {12, {"Q4_K", 256, 144}},   {13, {"Q5_K", 256, 176}},
    {14, {"Q6_K", 256, 210}},   {15, {"Q8_K", 256, 292}},   {16, {"IQ2_XXS", 256, 66}},
    {17, {"IQ2_XS", 256, 74}},  {18, {"IQ3_XXS", 256, 98}}, {19, {"IQ1_S", 256, 50}},
    {20, {"IQ4_NL", 32, 18}},   {21, {"IQ3_S", 256, 110}},  {22, {"IQ2_S", 256, 82}},
    {23, {"IQ4_XS", 256, 136}}, {24, {"I8", 1, 1}},         {25, {"I16", 1, 2}},
    {26, {"I32", 1, 4}},        {27, {"I64", 1, 8}},        {28, {"F64", 1, 8}},
    {29, {"IQ1_M", 256, 56}},   {30, {"BF16", 1, 2}},       {34, {"TQ1_0", 256, 54}},
    {35, {"TQ2_0", 256, 66}},   {39, {"MXFP4", 32, 17}},
};

// Bytes of one value; 0 for strings and arrays, whose size varies, and for what is no type.
uint64_t value_size(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

const char* value_type_name(GgufValueType type) {
  constexpr const char* kNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                    "bool",  "string", "array",  "uint64", "int64",  "float64"};
  size_t index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

// The start of a name from the file, for a sentence.
std::string_view shown(std::string_view name) { return name.substr(0, 80); }

template <typename T>
T read_at(const std::byte* position) {
  T value;
  std::memcpy(&value, position, sizeof(T));
  return value;
}

// The whole number at `position`; empty for other types and for what does not fit.
std::optional<int64_t> int_at(GgufValueType type, const std::byte* position) {
  switch (type) {
    case GgufValueType::kUint8:
      return read_at<uint8_t>(position);
    case GgufValueType::kInt8:
      return read_at<int8_t>(position);
    case GgufValueType::kUint16:
      return read_at<uint16_t>(position);
    case GgufValueType::kInt16:
      return read_at<int16_t>(position);
    case GgufValueType::kUint32:
      return read_at<uint32_t>(position);
    case GgufValueType::kInt32:
      return read_at<int32_t>(position);
    case GgufValueType::kInt64:
      return read_at<int64_t>(position);
    case GgufValueType::kUint64: {
      uint64_t value = read_at<uint64_t>(position);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> double_at(GgufValueType type, const std::byte* position) {
  if (type == GgufValueType::kFloat32) return read_at<float>(position);
  if (type == GgufValueType::kFloat64) return read_at<double>(position);
  if (type == GgufValueType::kUint64) return static_cast<double>(read_at<uint64_t>(position));
  std::optional<int64_t> whole = int_at(type, position);
  if (!whole) return std::nullopt;
  return static_cast<double>(*whole);
}

// Reads the header of one file from front to back; every complaint names the file and the place.
class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  GgufContents read() {
    read_version();
    uint64_t tensor_count = read_number<uint64_t>("the number of tensors");
    uint64_t value_count = read_number<uint64_t>("the number of metadata values");
    // The least that each takes: a length, a type and a byte; a length, dimensions, type and offset.
    if (value_count > rest() / 13) throw bad("metadata", fmt::format("claims {} values", value_count));
    if (tensor_count > rest() / 24) throw bad("tensors", fmt::format("claims {} tensors", tensor_count));
    read_metadata(value_count);
    read_tensor_infos(tensor_count);
    place_tensors();
    check_overlaps();
    return std::move(contents_);
  }

 private:
  // A tensor whose place in the file is not checked yet.
  struct Placement {
    uint64_t offset;
    uint64_t size;
  };

  Error bad(std::string_view place, std::string_view sentence) const {
    return input_error(fmt::format("{}: {} {} (at byte {} of {}); copy or convert the file again.", what_,
                                   place, sentence, position_, bytes_.size()));
  }

  uint64_t rest() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t size, std::string_view place) {
    if (size > rest()) throw bad(place, fmt::format("needs {} bytes where {} are left", size, rest()));
    std::span<const std::byte> taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  template <typename T>
  T read_number(std::string_view place) {
    return read_at<T>(take(sizeof(T), place).data());
  }

  std::string_view read_string(std::string_view place) {
    uint64_t size = read_number<uint64_t>(place);
    std::span<const std::byte> taken = take(size, place);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  void read_version() {
    std::span<const std::byte> magic = take(4, "the magic 'GGUF'");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0)
      throw bad("the start", "is not 'GGUF'; this is no GGUF file");
    contents_.version = read_number<uint32_t>("the version");
    if (contents_.version == 2 || contents_.version == 3) return;
    bool swapped = __builtin_bswap32(contents_.version) <= 3;
    throw bad("the version", swapped ? "is big-endian; Stoker reads little-endian files"
                                     : fmt::format("is {}; Stoker reads 2 and 3", contents_.version));
  }

  void read_metadata(uint64_t count) {
    std::unordered_set<std::string_view> keys;
    contents_.metadata.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      GgufValue value;
      value.key = read_string(fmt::format("the key of metadata value {}", i));
      std::string place = fmt::format("metadata '{}'", shown(value.key));
      if (!keys.insert(value.key).second) throw bad(place, "occurs twice");
      value.type = static_cast<GgufValueType>(read_number<uint32_t>(place));
      read_value(value, place);
      if (value.key == "general.alignment") read_alignment(value, place);
      contents_.metadata.push_back(value);
    }
  }

  void read_value(GgufValue& value, const std::string& place) {
    uint64_t begin = position_;
    if (value.type == GgufValueType::kArray) {
      value.element_type = static_cast<GgufValueType>(read_number<uint32_t>(place));
      value.count = read_number<uint64_t>(place);
      begin = position_;
      skip_elements(value.element_type, value.count, 1, place);
    } else {
      skip_elements(value.type, 1, 1, place);
    }
    value.bytes = bytes_.subspan(begin, position_ - begin);
  }

  void skip_elements(GgufValueType type, uint64_t count, int depth, const std::string& place) {
    if (uint64_t size = value_size(type); size > 0) {
      if (count > rest() / size) {
        throw bad(place,
                  fmt::format("claims {} elements of {} bytes where {} bytes are left", count, size, rest()));
      }
      std::span<const std::byte> taken = take(count * size, place);
      if (type != GgufValueType::kBool) return;
      auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
      if (!std::all_of(taken.begin(), taken.end(), is_bool)) throw bad(place, "is neither true nor false");
      return;
    }
    if (type == GgufValueType::kString) {
      if (count > rest() / 8)
        throw bad(place, fmt::format("claims {} strings where {} bytes are left", count, rest()));
      for (uint64_t i = 0; i < count; ++i) read_string(place);
      return;
    }
    if (type != GgufValueType::kArray) {
      throw bad(place, fmt::format("has the unknown type {}", static_cast<uint32_t>(type)));
    }
    if (depth > kDeepestArray) throw bad(place, fmt::format("nests arrays more than {} deep", kDeepestArray));
    if (count > rest() / 12)
      throw bad(place, fmt::format("claims {} arrays where {} bytes are left", count, rest()));
    for (uint64_t i = 0; i < count; ++i) {
      auto element_type = static_cast<GgufValueType>(read_number<uint32_t>(place));
      uint64_t elements = read_number<uint64_t>(place);
      skip_elements(element_type, elements, depth + 1, place);
    }
  }

  void read_alignment(const GgufValue& value, const std::string& place) {
    std::optional<int64_t> alignment = int_at(value.type, value.bytes.data());
    if (!alignment || *alignment <= 0 || *alignment > static_cast<int64_t>(kLargestAlignment) ||
        !std::has_single_bit(static_cast<uint64_t>(*alignment))) {
      throw bad(place, fmt::format("is no power of two up to {}", kLargestAlignment));
    }
    alignment_ = static_cast<uint64_t>(*alignment);
  }

  void read_tensor_infos(uint64_t count) {
    std::unordered_set<std::string_view> names;
    contents_.tensors.reserve(count);
    placements_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      GgufTensor tensor;
      tensor.name = read_string(fmt::format("the name of tensor {}", i));
      std::string place = fmt::format("tensor '{}'", shown(tensor.name));
      if (!names.insert(tensor.name).second) throw bad(place, "occurs twice");
      uint32_t dimensions = read_number<uint32_t>(place);
      if (dimensions == 0 || dimensions > kMostDimensions) {
        throw bad(place, fmt::format("has {} dimensions; 1 to {} are allowed", dimensions, kMostDimensions));
      }
      for (uint32_t d = 0; d < dimensions; ++d) tensor.shape.push_back(read_size(place));
      std::reverse(tensor.shape.begin(), tensor.shape.end());
      tensor.type = static_cast<GgufTensorType>(read_number<uint32_t>(place));
      uint64_t size = tensor_size(tensor, place);
      placements_.push_back({read_number<uint64_t>(place), size});
      contents_.tensors.push_back(std::move(tensor));
    }
  }

  int64_t read_size(const std::string& place) {
    uint64_t size = read_number<uint64_t>(place);
    if (size == 0 || size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw bad(place, fmt::format("has a dimension of size {}", size));
    }
    return static_cast<int64_t>(size);
  }

  uint64_t tensor_size(const GgufTensor& tensor, const std::string& place) {
    const GgufBlockLayout* layout = gguf_block_layout(tensor.type);
    if (layout == nullptr) {
      throw bad(place, fmt::format("has the unknown type {}", static_cast<uint32_t>(tensor.type)));
    }
    if (tensor.shape.back() % layout->elements != 0) {
      throw bad(place, fmt::format("has rows of {} elements, no multiple of the {} in a block of {}",
                                   tensor.shape.back(), layout->elements, layout->name));
    }
    int64_t size = tensor.shape.back() / layout->elements;
    bool overflow = __builtin_mul_overflow(size, layout->bytes, &size);
    for (size_t d = 0; d + 1 < tensor.shape.size(); ++d) {
      overflow = overflow || __builtin_mul_overflow(size, tensor.shape[d], &size);
    }
    if (overflow || static_cast<uint64_t>(size) > bytes_.size()) {
      throw bad(place, fmt::format("of shape [{}] does not fit the file", fmt::join(tensor.shape, ", ")));
    }
    return static_cast<uint64_t>(size);
  }

  void place_tensors() {
    if (contents_.tensors.empty()) return;
    uint64_t padding = (alignment_ - position_ % alignment_) % alignment_;
    take(padding, "the padding before the tensors' data");
    uint64_t data = position_;
    for (size_t i = 0; i < contents_.tensors.size(); ++i) {
      GgufTensor& tensor = contents_.tensors[i];
      const Placement& placement = placements_[i];
      std::string place = fmt::format("tensor '{}'", shown(tensor.name));
      if (placement.offset % alignment_ != 0) {
        throw bad(place, fmt::format("has offset {}, no multiple of the alignment {}", placement.offset,
                                     alignment_));
      }
      uint64_t available = bytes_.size() - data;
      if (placement.offset > available || placement.size > available - placement.offset) {
        throw bad(place, fmt::format("has {} bytes at offset {} of a data area of {} bytes (cut off?)",
                                     placement.size, placement.offset, available));
      }
      tensor.data = bytes_.subspan(data + placement.offset, placement.size);
    }
  }

  void check_overlaps() const {
    std::vector<const GgufTensor*> tensors;
    tensors.reserve(contents_.tensors.size());
    for (const GgufTensor& tensor : contents_.tensors) tensors.push_back(&tensor);
    std::sort(tensors.begin(), tensors.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->data.data() < b->data.data(); });
    for (size_t i = 1; i < tensors.size(); ++i) {
      if (tensors[i]->data.data() < tensors[i - 1]->data.data() + tensors[i - 1]->data.size()) {
        throw bad(fmt::format("tensor '{}'", shown(tensors[i]->name)),
                  fmt::format("overlaps tensor '{}'", shown(tensors[i - 1]->name)));
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& what_;
  uint64_t position_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<Placement> placements_;
  GgufContents contents_;
};

// The string that starts with its length at `position`, which moves behind it; checked by GgufReader.
std::string_view string_at(const std::byte*& position) {
  uint64_t size = read_at<uint64_t>(position);
  std::string_view text(reinterpret_cast<const char*>(position) + sizeof(size), size);
  position += sizeof(size) + size;
  return text;
}

}  // namespace

const GgufBlockLayout* gguf_block_layout(GgufTensorType type) {
  for (const TensorTypeInfo& info : kTensorTypes) {
    if (info.type == static_cast<uint32_t>(type)) return &info.layout;
  }
  return nullptr;
}

GgufContents read_gguf(std::span<const std::byte> bytes, const std::string& what) {
  return GgufReader(bytes, what).read();
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : what_(path.string()), file_(path), contents_(read_gguf({file_.data(), file_.size()}, what_)) {}

const GgufValue* GgufFile::find(std::string_view key) const {
  for (const GgufValue& value : contents_.metadata) {
    if (value.key == key) return &value;
  }
  return nullptr;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  for (const GgufTensor& tensor : contents_.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufValueType::kBool) throw_wrong_type(*value, "true or false");
  return value->bytes[0] != std::byte{0};
}

std::optional<int64_t> GgufFile::find_int(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number = int_at(value->type, value->bytes.data());
  if (!number) throw_wrong_type(*value, "a whole number of 64 bits");
  return number;
}

std::optional<double> GgufFile::find_double(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<double> number = double_at(value->type, value->bytes.data());
  if (!number) throw_wrong_type(*value, "a number");
  return number;
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufValueType::kString) throw_wrong_type(*value, "a string");
  const std::byte* position = value->bytes.data();
  return string_at(position);
}

std::optional<std::vector<int64_t>> GgufFile::find_ints(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of whole numbers");
  if (value == nullptr) return std::nullopt;
  std::vector<int64_t> numbers;
  if (value->count == 0) return numbers;
  uint64_t size = value_size(value->element_type);
  if (size == 0) throw_wrong_type(*value, "an array of whole numbers");
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    std::optional<int64_t> number = int_at(value->element_type, value->bytes.data() + i * size);
    if (!number) throw_wrong_type(*value, "an array of whole numbers of 64 bits");
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<double>> GgufFile::find_doubles(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of numbers");
  if (value == nullptr) return std::nullopt;
  std::vector<double> numbers;
  if (value->count == 0) return numbers;
  uint64_t size = value_size(value->element_type);
  if (size == 0) throw_wrong_type(*value, "an array of numbers");
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    std::optional<double> number = double_at(value->element_type, value->bytes.data() + i * size);
    if (!number) throw_wrong_type(*value, "an array of numbers");
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<std::string_view>> GgufFile::find_strings(std::string_view key) const {
  const GgufValue* value = find_array(key, "an array of strings");
  if (value == nullptr) return std::nullopt;
  std::vector<std::string_view> strings;
  if (value->count == 0) return strings;
  if (value->element_type != GgufValueType::kString) throw_wrong_type(*value, "an array of strings");
  strings.reserve(value->count);
  const std::byte* position = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) strings.push_back(string_at(position));
  return strings;
}

const GgufValue* GgufFile::find_array(std::string_view key, const char* needed) const {
  const GgufValue* value = find(key);
  if (value != nullptr && value->type != GgufValueType::kArray) throw_wrong_type(*value, needed);
  return value;
}

void GgufFile::throw_missing(std::string_view key) const {
  throw input_error(fmt::format("{}: the metadata has no '{}'; convert the model again.", what_, key));
}

void GgufFile::throw_wrong_type(const GgufValue& value, const char* needed) const {
  std::string found = value_type_name(value.type);
  if (value.type == GgufValueType::kArray)
    found += fmt::format(" of {}", value_type_name(value.element_type));
  throw input_error(
      fmt::format("{}: metadata '{}' is of type {} where {} is needed; convert the model again.", what_,
                  value.key, found, needed));
}

}  // namespace stoker
