#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "async/pool.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "base/result.h"
#include "model/weights.h"

namespace stoker {

// Where the weights of one version lie for an engine in another process: all tensors in manifest order as
// float32, without a header. The digest, of names, shapes and bytes, tells whether they are the right ones.
struct WeightsFile {
  std::filesystem::path path;
  int64_t version = 0;
  uint64_t digest = 0;
};

// A written file, removed with the object.
class OwnedWeightsFile {
 public:
  explicit OwnedWeightsFile(WeightsFile file) : file_(std::move(file)) {}
  ~OwnedWeightsFile();
  OwnedWeightsFile(const OwnedWeightsFile&) = delete;
  OwnedWeightsFile& operator=(const OwnedWeightsFile&) = delete;

  const WeightsFile& file() const { return file_; }

 private:
  WeightsFile file_;
};

// Writes weights for the engines in other processes: each version once, whoever asks for it. The last one
// stays until the next is written, for engines that are replaced; earlier ones as long as they are held.
//
//   auto file = co_await files.write(weights);
//   if (!file) co_return file.failure();
class WeightsFiles {
 public:
  // `folder` is made anew and removed with the object, both with all that is in it. Throws Error when it
  // cannot be made. `pool` is where files are written and must outlive the object.
  WeightsFiles(std::filesystem::path folder, Pool& pool);
  ~WeightsFiles();
  // What a process that was killed left of `folder`. A symbolic link is removed, and not what it names.
  static void remove_left(const std::filesystem::path& folder);
  WeightsFiles(const WeightsFiles&) = delete;
  WeightsFiles& operator=(const WeightsFiles&) = delete;

  // The failure infrastructure.weights_file tells what the disk refused.
  static constexpr const char* kRefused = "weights_file";
  Task<Result<std::shared_ptr<const OwnedWeightsFile>>> write(WeightsPtr weights);

 private:
  std::filesystem::path folder_;
  Pool& pool_;
  Semaphore writing_{1, "weights file"};
  WeightsPtr last_weights_;
  std::shared_ptr<const OwnedWeightsFile> last_;
  int64_t written_ = 0;
};

// Maps and copies the file; blocks. Throws Error(kInput) when it is not what `file` says.
WeightsPtr read_weights_file(const WeightsFile& file, const ModelConfig& config);

}  // namespace stoker
