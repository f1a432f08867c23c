#include "cli/text_render_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/testing/test_folder.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

using testing::HasSubstr;

// A model directory with the demo's tokenizer and template.
class TextRenderCommand : public testing::Test {
 protected:
  TextRenderCommand() {
    folder_.write("tokenizer.json", build_tokenizer_json({"user"}).dump());
    folder_.write("chat_template.jinja", chatml_template());
    folder_.write("tokenizer_config.json", R"({"bos_token": {"content": "<|im_start|>"}})");
    arguments_ = {.chat_template = folder_.path(), .tokenizer = folder_.path()};
  }

  std::string run(size_t (*verb)(const TextRenderArguments&, std::istream&, std::ostream&),
                  const std::string& input) {
    std::istringstream in(input);
    std::ostringstream out;
    wrong_ = verb(arguments_, in, out);
    return out.str();
  }
  std::string render(const std::string& input) { return run(render_conversations, input); }
  std::string bridge(const std::string& input) { return run(bridge_conversations, input); }
  std::string refusal(const std::string& input) {
    try {
      bridge(input);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  }

  TestFolder folder_;
  TextRenderArguments arguments_;
  size_t wrong_ = 0;  // rows of the last run
};

TEST_F(TextRenderCommand, WritesTextIdsAndAuthorsForEachLine) {
  Json row = Json::parse(
      render("\n"
             R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": true})"));
  EXPECT_EQ(row.at("text").as_string(), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
  ASSERT_EQ(row.at("ids").as_array().size(), row.at("authors").as_array().size());
  EXPECT_EQ(row.at("authors").as_array()[0].as_string(), "template");
  int by_user = 0;
  for (const Json& author : row.at("authors").as_array()) by_user += author.as_string() == "user";
  EXPECT_EQ(by_user, 1);
  arguments_.tokenizer.clear();
  EXPECT_EQ(render(R"({"messages": [{"role": "user", "content": "a"}]})"),
            "{\"text\": \"<|im_start|>user\\na<|im_end|>\\n\"}\n");
}

TEST_F(TextRenderCommand, VariablesReachTheTemplateAsTheyAreWritten) {
  arguments_.tokenizer.clear();
  folder_.write(
      "chat_template.jinja",
      "{{ bos_token }}{{ big }} {{ x|tojson }} {{ tools is defined }} {{ strftime_now('%d %b %Y') }}");
  EXPECT_EQ(
      Json::parse(
          render(R"({"messages": [], "big": 123456789012345678901234567890, "x": {"b": 1.0, "a": []}})"))
          .at("text")
          .as_string(),
      "<|im_start|>123456789012345678901234567890 {\"b\": 1.0, \"a\": []} False 26 Jul 2024");
  arguments_.date = "2026-02-03";
  EXPECT_EQ(Json::parse(render(R"({"messages": [], "big": 1, "x": 1, "tools": null, "bos_token": "<s>"})"))
                .at("text")
                .as_string(),
            "<s>1 1 True 03 Feb 2026");
  arguments_.date = "yesterday";
  EXPECT_THROW(render(R"({"messages": []})"), Error);
}

TEST_F(TextRenderCommand, AnErrorOfTheTemplateIsARow) {
  folder_.write("chat_template.jinja",
                "{% if messages|length > 1 %}{{ raise_exception('One only') }}{% endif %}"
                "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}");
  std::string rows =
      render(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})"
             "\n"
             R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_THAT(rows, testing::StartsWith("{\"error\": \"One only (template line 1, column "));
  EXPECT_THAT(rows, HasSubstr("\"text\": \"a<|im_end|>\""));
  EXPECT_EQ(wrong_, 0u);
}

TEST_F(TextRenderCommand, BridgesGiveTheSuffixOrSayWhatIsRewritten) {
  Json prompt = Json::parse(
      render(R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": true})"));
  Json row = Json::object(
      {{"prefix_ids", prompt.at("ids")}, {"messages", Json::parse(R"([{"role": "tool", "content": "3"}])")}});
  Json answer = Json::parse(bridge(row.dump()));
  std::vector<int32_t> ids;
  for (const Json& id : answer.at("suffix_ids").as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  EXPECT_EQ(Tokenizer::load(folder_.path())->decode(ids),
            "<|im_end|>\n<|im_start|>user\n<tool_response>\n3\n</"
            "tool_response><|im_end|>\n<|im_start|>assistant\n");
  folder_.write(
      "chat_template.jinja",
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  Json ends = prompt.at("ids");
  ends.as_array().push_back(Json(Tokenizer::load(folder_.path())->encode(" ")[0]));
  row.set("prefix_ids", ends);
  EXPECT_EQ(bridge(row.dump()),
            "{\"rewrites\": {\"message\": 1, \"reason\": \"the template trims the blanks at the start of an "
            "assistant's turn\"}}\n");
}

TEST_F(TextRenderCommand, WrongRowsAreNamedAndTheNextOneIsRead) {
  for (auto verb : {render_conversations, bridge_conversations}) {
    std::string rows = run(verb, "\n[1]\n{\"messages\": 3}\n{\n");
    EXPECT_EQ(wrong_, 3u) << rows;
    EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3) << rows;
    EXPECT_THAT(rows, testing::StartsWith("{\"error\": \"Line 2 of the input"));
    EXPECT_THAT(rows, HasSubstr("\n{\"error\": \""));
  }
  EXPECT_THAT(
      render("{}\n"
             R"({"messages": [{"role": "user", "content": "a"}]})"),
      testing::AllOf(testing::StartsWith("{\"error\": \"Line 1"), HasSubstr("\n{\"text\": \"<|im_start|>")));
  EXPECT_EQ(wrong_, 1u);
  EXPECT_THAT(bridge(R"({"messages": []})"), HasSubstr("\\\"prefix_ids\\\""));
  EXPECT_THAT(bridge(R"({"messages": [], "prefix_ids": ["a"]})"), HasSubstr("no token id"));
  EXPECT_THAT(bridge("{"), HasSubstr("no JSON"));
  arguments_.tokenizer.clear();
  EXPECT_THAT(refusal("{}"), HasSubstr("--tokenizer"));
}

// What a template asks for beyond the conversation decides what it writes, and so who wrote it.
TEST_F(TextRenderCommand, VariablesOfARowDecideWhoWroteWhat) {
  folder_.write(
      "chat_template.jinja",
      "{{ 'Functions: ' + functions }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
      "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  Json row = Json::parse(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_THAT(render(row.dump()), testing::StartsWith("{\"error\": "));
  row.set("functions", "[]");
  EXPECT_THAT(render(row.dump()), HasSubstr("\"assistant\""));
  row.set("prefix_ids", Json::parse(render(row.dump())).at("ids"));
  row.set("messages", Json::parse(R"([{"role": "user", "content": "c"}])"));
  EXPECT_THAT(bridge(row.dump()), testing::StartsWith("{\"suffix_ids\": ["));
}

}  // namespace
}  // namespace stoker
