#include "engine/weights_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// Beside and renamed, but not flushed: the file is of no use after a crash of the machine.
WeightsFile write_weights_file(const fs::path& path, const Weights& weights) {
  WeightsFile file{.path = path, .version = weights.version(), .digest = weights.digest()};
  const fs::path part = fs::path(file.path).concat(".part");
  {
    const Descriptor output = open_file(part, O_WRONLY | O_CREAT | O_TRUNC, "write");
    const std::span<const float> values = weights.values();
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    if (const int code = write_all(output.get(), bytes); code != 0) {
      std::error_code ignored;
      fs::remove(part, ignored);
      throw file_error("write", part, code);
    }
  }
  std::error_code problem;
  fs::rename(part, file.path, problem);
  if (problem) throw file_error("rename", part, problem.value());
  return file;
}

}  // namespace

OwnedWeightsFile::~OwnedWeightsFile() {
  std::error_code ignored;
  fs::remove(file_.path, ignored);
}

WeightsFiles::WeightsFiles(fs::path folder, Pool& pool) : folder_(std::move(folder)), pool_(pool) {
  remove_left(folder_);
  std::error_code problem;
  fs::create_directories(folder_, problem);
  if (problem) throw file_error("create", folder_, problem.value());
}

void WeightsFiles::remove_left(const fs::path& folder) {
  std::error_code problem;
  fs::remove_all(folder, problem);
  if (problem) throw file_error("remove", folder, problem.value());
}

WeightsFiles::~WeightsFiles() {
  last_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

Task<Result<std::shared_ptr<const OwnedWeightsFile>>> WeightsFiles::write(WeightsPtr weights) {
  const Permit turn = co_await writing_.acquire();
  if (last_ && last_weights_ == weights) co_return last_;
  try {
    const fs::path path = folder_ / fmt::format("{}_of_version_{}.weights", ++written_, weights->version());
    WeightsFile file = co_await pool_.run([path, weights] { return write_weights_file(path, *weights); });
    last_ = std::make_shared<const OwnedWeightsFile>(std::move(file));
    last_weights_ = std::move(weights);
  } catch (const Error& error) {
    co_return Failure{FailureClass::kInfrastructure, kRefused, error.what()};
  }
  co_return last_;
}

WeightsPtr read_weights_file(const WeightsFile& file, const ModelConfig& config) {
  auto weights = std::make_shared<Weights>(config);
  weights->set_version(file.version);
  const std::span<float> values = weights->values();
  const MappedFile mapped(file.path);
  if (mapped.size() != values.size_bytes()) {
    throw input_error(fmt::format("{} holds {} bytes; the weights of this model are {}.", file.path.string(),
                                  mapped.size(), values.size_bytes()));
  }
  std::memcpy(values.data(), mapped.data(), mapped.size());
  if (const uint64_t digest = weights->digest(); digest != file.digest) {
    throw input_error(fmt::format("The weights in {} have the digest {:016x} instead of {:016x}.",
                                  file.path.string(), digest, file.digest));
  }
  return weights;
}

}  // namespace stoker
