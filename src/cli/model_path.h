#pragma once

#include <filesystem>
#include <string>

namespace stoker {

// Throws Error(kInput) when `path` is nothing that a model can be read from: it does not exist, is a folder
// without config.json and GGUF file, or a file of another kind. `what` names who gave the path in the
// sentence ("model.path", "MODEL"). For checks before the parts of the model are looked for.
void check_model_path(const std::filesystem::path& path, const std::string& what);

}  // namespace stoker
