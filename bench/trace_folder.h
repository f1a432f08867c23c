#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace stoker {

// A folder for a trace, gone with the object. Throws Error(kResource) where there is no place for it.
class TraceFolder {
 public:
  TraceFolder() : path_((std::filesystem::temp_directory_path() / "stoker_trace_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw resource_error("The benchmark found no place for its trace.");
  }
  ~TraceFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace stoker
