#pragma once

#include <zlib.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "text/tokenizer.h"

namespace stoker {

// The folder of test data beside the checkout; tests that need it skip where it is absent.
inline std::filesystem::path shared_data() {
  return std::filesystem::path(STOKER_SOURCE_DIR).parent_path() / "shared" / "data";
}

// The content of a file compressed by gzip.
inline std::string read_gzip(const std::filesystem::path& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw input_error(path.string() + " cannot be opened");
  char buffer[1 << 16];
  for (int size = gzread(file, buffer, sizeof(buffer)); size > 0;
       size = gzread(file, buffer, sizeof(buffer))) {
    text.append(buffer, static_cast<size_t>(size));
  }
  gzclose(file);
  return text;
}

// A tokenizer of shared/data/tokenizers by its folder's name.
inline TokenizerPtr shared_tokenizer(const std::string& name) {
  std::filesystem::path path = shared_data() / "tokenizers" / name / "tokenizer.json.gz";
  return Tokenizer::from_json(Json::parse(read_gzip(path), path.string()), path.string());
}

}  // namespace stoker
