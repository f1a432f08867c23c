#include "environment/conversation_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stoker {
namespace {

Demonstration read_conversation(const Json& row, const std::string& place) {
  const Json* messages = row.find("messages");
  if (messages == nullptr) {
    throw input_error(fmt::format("{}: the row has no \"messages\"; give it a list of messages.", place));
  }
  Demonstration result{messages_from_json(*messages, fmt::format("{}, \"messages\"", place))};
  bool answered = std::any_of(result.messages.begin(), result.messages.end(),
                              [](const Message& message) { return message.role == Role::kAssistant; });
  if (!answered) {
    throw input_error(
        fmt::format("{}: \"messages\" has no assistant message; there is nothing to train.", place));
  }
  return result;
}

}  // namespace

ConversationFile::ConversationFile(const std::filesystem::path& path, size_t max_row_bytes)
    : file_(path, max_row_bytes, "max_row_bytes",
            [](const Json& row, const std::string& place) { read_conversation(row, place); }) {}

Demonstration ConversationFile::conversation(size_t index) const {
  return read_conversation(file_.row(index), file_.place(index));
}

}  // namespace stoker
