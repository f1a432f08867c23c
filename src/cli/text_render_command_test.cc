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

  std::string run(void (*verb)(const TextRenderArguments&, std::istream&, std::ostream&),
                  const std::string& input) {
    std::istringstream in(input);
    std::ostringstream out;
    verb(arguments_, in, out);
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
            "{\"text\":\"<|im_start|>user\\na<|im_end|>\\n\"}\n");
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
  EXPECT_THROW(render("{}"), Error);
}

TEST_F(TextRenderCommand, AnErrorOfTheTemplateIsARow) {
  folder_.write("chat_template.jinja",
                "{% if messages|length > 1 %}{{ raise_exception('One only') }}{% endif %}"
                "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}");
  std::string rows =
      render(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})"
             "\n"
             R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_THAT(rows, testing::StartsWith("{\"error\":\"One only (template line 1, column "));
  EXPECT_THAT(rows, HasSubstr("\"text\":\"a<|im_end|>\""));
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
            "{\"rewrites\":{\"message\":1,\"reason\":\"the template trims the blanks at the start of an "
            "assistant's turn\"}}\n");
}

TEST_F(TextRenderCommand, WrongRowsAreNamed) {
  EXPECT_THAT(refusal("\n[1]"), HasSubstr("Line 2 of the input"));
  EXPECT_THAT(refusal(R"({"messages": []})"), HasSubstr("\"prefix_ids\""));
  EXPECT_THAT(refusal(R"({"messages": [], "prefix_ids": ["a"]})"), HasSubstr("no token id"));
  EXPECT_THAT(refusal("{"), HasSubstr("no JSON"));
  arguments_.tokenizer.clear();
  EXPECT_THAT(refusal("{}"), HasSubstr("--tokenizer"));
}

}  // namespace
}  // namespace stoker
