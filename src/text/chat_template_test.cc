#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/test_folder.h"
#include "base/utf8.h"
#include "text/jinja/json_values.h"
#include "text/testing/shared_data.h"
#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

// The value of a recorded input: text that keeps numbers as they were written.
jinja::Value value_of(const Json& json) {
  return *jinja::parse_json_value(json.dump(), {Author::kSystem, false});
}

ChatInput input_of(const Json& row) {
  ChatInput input;
  const jinja::Value value = value_of(row.at("input"));
  for (const auto& [key, member] : value.dict()->members) {
    const std::string& name = key.text()->bytes();
    if (name == "messages") {
      input.messages = chat_messages(member);
    } else if (name == "tools") {
      input.tools = member;
    } else if (name == "add_generation_prompt") {
      input.add_generation_prompt = member.boolean();
    } else {
      input.variables.emplace_back(name, member);
    }
  }
  return input;
}

// The position in characters of a byte position.
int64_t characters_before(const std::string& text, size_t bytes) {
  int64_t count = 0;
  for (size_t i = 0; i < bytes; ++i) count += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  return count;
}

void expect_recorded(const Json& row, const ChatTemplate& chat_template) {
  SCOPED_TRACE(row.at("template").as_string() + " " + row.at("case").as_string());
  ChatInput input = input_of(row);
  if (const Json* bos = row.find("bos_token"); bos != nullptr && bos->is_string())
    input.variables.emplace_back("bos_token", jinja::Value(bos->as_string(), jinja::kTemplateSource));
  Result<jinja::Rendered> rendered = chat_template.render(input);
  if (const Json* error = row.find("error")) {
    ASSERT_FALSE(rendered) << rendered->text.bytes();
    std::string_view raised = error->as_string();
    if (raised.starts_with("TemplateError: "))
      EXPECT_THAT(rendered.failure().message, testing::HasSubstr(std::string(raised.substr(15))));
    return;
  }
  ASSERT_TRUE(rendered) << rendered.failure().message;
  const std::string& text = rendered->text.bytes();
  ASSERT_EQ(text, row.at("rendered").as_string());
  const Json* spans = row.find("assistant_char_spans");
  if (spans == nullptr) return;
  ASSERT_EQ(rendered->generation.size(), spans->as_array().size());
  for (size_t i = 0; i < rendered->generation.size(); ++i) {
    EXPECT_EQ(characters_before(text, rendered->generation[i].begin),
              spans->as_array()[i].as_array()[0].as_int());
    EXPECT_EQ(characters_before(text, rendered->generation[i].end),
              spans->as_array()[i].as_array()[1].as_int());
  }
}

TEST(ChatTemplateGolden, EveryRecordedConversationRendersByteForByte) {
  std::filesystem::path path = shared_data() / "goldens" / "chat_render.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "There is no " << path << ".";
  std::map<std::string, ChatTemplate> templates;
  const std::vector<Json> rows = read_rows(path);
  RecordProperty("goldens", std::to_string(rows.size()));
  for (const Json& row : rows) {
    const std::string& name = row.at("template").as_string();
    auto found = templates.find(name);
    if (found == templates.end())
      found = templates.emplace(name, ChatTemplate::load(shared_data() / "chat-templates" / name)).first;
    expect_recorded(row, found->second);
  }
  EXPECT_EQ(templates.size(), 11u);
}

TEST(ChatTemplateGolden, EveryTemplateCompiles) {
  std::filesystem::path folder = shared_data() / "chat-templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "There is no " << folder << ".";
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    EXPECT_NO_THROW(ChatTemplate::load(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 33);
}

// CRC-32 as zlib has it.
uint32_t crc32_of(std::string_view bytes) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> entries(256);
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) entries[i] = (entries[i] >> 1) ^ (entries[i] & 1 ? 0xEDB88320u : 0u);
    }
    return entries;
  }();
  uint32_t crc = ~0u;
  for (char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

// Every conversation of BFCL and tau2 with every template, as `./dev test --oracles` leaves them.
TEST(ChatTemplateGolden, EqualsTransformersOnBfclAndTau2) {
  std::filesystem::path path =
      std::filesystem::path(STOKER_SOURCE_DIR) / "build" / "goldens" / "templates_large.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "Run './dev test --oracles' to make " << path << ".";
  std::vector<ChatInput> inputs;
  int64_t renders = 0;
  int64_t refusals = 0;
  for_each_line(path, [&](std::string_view line, size_t, bool) {
    if (line.starts_with("{\"input\"")) {
      Json row = Json::parse(line);
      ChatInput input = input_of(row);
      for (const char* name : {"bos_token", "eos_token"})
        input.variables.emplace_back(name,
                                     jinja::Value(name[0] == 'b' ? "<s>" : "</s>", jinja::kTemplateSource));
      inputs.push_back(std::move(input));
      return true;
    }
    Json row = Json::parse(line);
    const std::string& name = row.at("template").as_string();
    ChatTemplate chat_template = ChatTemplate::load(shared_data() / name);
    const Json::Array& answers = row.at("answers").as_array();
    EXPECT_EQ(answers.size(), inputs.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      Result<jinja::Rendered> rendered = chat_template.render(inputs[i]);
      bool equal = answers[i].is_null()
                       ? !rendered
                       : rendered && int64_t(rendered->text.size()) == answers[i].as_array()[0].as_int() &&
                             crc32_of(rendered->text.bytes()) == answers[i].as_array()[1].as_int();
      EXPECT_TRUE(equal) << name << ", conversation " << i << ": "
                         << (rendered ? rendered->text.bytes() : rendered.failure().message);
      if (!equal) return false;
      ++(rendered ? renders : refusals);
    }
    return true;
  });
  RecordProperty("renders", std::to_string(renders));
  RecordProperty("refusals", std::to_string(refusals));
  std::printf("%lld renders and %lld refusals equal the reference\n", static_cast<long long>(renders),
              static_cast<long long>(refusals));
  EXPECT_GT(renders, 100000);
}

}  // namespace
}  // namespace stoker
