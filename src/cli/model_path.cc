#include "cli/model_path.h"

#include <fmt/core.h>

#include <system_error>

#include "base/error.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

bool holds_model(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "config.json", error)) return true;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gguf") return true;
  }
  return false;
}

}  // namespace

void check_model_path(const fs::path& path, const std::string& what) {
  constexpr const char* kRemedy =
      "name a directory with config.json, model.safetensors and tokenizer.json, or a GGUF file ('stoker init "
      "DIRECTORY' writes a fresh model)";
  std::error_code error;
  if (path.empty()) throw input_error(fmt::format("No model is named; set {}: {}.", what, kRemedy));
  const auto refuse = [&](const std::string& why) {
    return input_error(fmt::format("The model {} ({}) {}; {}.", path.string(), what, why, kRemedy));
  };
  if (!fs::exists(path, error)) {
    throw refuse(path.is_absolute() ? "does not exist"
                                    : fmt::format("does not exist in {}", fs::current_path(error).string()));
  }
  if (!fs::is_directory(path, error)) {
    if (path.extension() != ".gguf") throw refuse("is neither a model directory nor a GGUF file");
    return;
  }
  if (holds_model(path)) return;
  if (holds_model(path / "model")) {
    throw input_error(fmt::format("{} ({}) is a run folder, not a model directory; its model is {}.",
                                  path.string(), what, (path / "model").string()));
  }
  throw refuse("is no model directory: it holds neither config.json nor a GGUF file");
}

}  // namespace stoker
