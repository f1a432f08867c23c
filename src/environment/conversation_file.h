#pragma once

#include <cstddef>
#include <filesystem>

#include "environment/json_lines_file.h"
#include "environment/registry.h"

namespace stoker {

// Conversations for supervised training from a JSON Lines file: `messages` a row, in OpenAI's form, with at
// least one assistant message; other members are passed over.
//
//   ConversationFile conversations("warm_up.jsonl");
//   Demonstration first = conversations.conversation(0);
class ConversationFile {
 public:
  // Reads and checks every row; a missing or broken file or row throws Error(kInput) naming file, line, key
  // and remedy.
  explicit ConversationFile(const std::filesystem::path& path, size_t max_row_bytes = size_t{16} << 20);

  size_t size() const { return file_.size(); }
  Demonstration conversation(size_t index) const;

 private:
  JsonLinesFile file_;
};

}  // namespace stoker
