#include "text/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/jinja/json_values.h"
#include "text/testing/tokenizers.h"

namespace stoker::jinja {
namespace {

using testing::HasSubstr;

constexpr Source kUser{Author::kUser, false};

Variables variables_of(const Json& json) {
  Value dict = *parse_json_value(json.dump(), kUser);
  Variables variables;
  for (const auto& [name, value] : dict.dict()->members) variables.emplace_back(name.text()->bytes(), value);
  return variables;
}

Result<Rendered> render(const std::string& source, const Variables& variables = {},
                        const RenderLimits& limits = {}) {
  Result<Template> compiled = Template::compile(source);
  if (!compiled) return compiled.failure();
  return compiled->render(variables, {}, limits);
}

std::string text_of(const std::string& source, const Variables& variables = {}) {
  Result<Rendered> rendered = render(source, variables);
  return rendered ? rendered->text.bytes() : "error: " + rendered.failure().message;
}

std::string error_of(const std::string& source, const Variables& variables = {},
                     const RenderLimits& limits = {}) {
  Result<Rendered> rendered = render(source, variables, limits);
  return rendered ? "rendered: " + rendered->text.bytes().substr(0, 200) : rendered.failure().message;
}

// Each stretch of the text with its source: "user:Hi|template!:..."; '!' is trusted.
std::string by_source(const MarkedText& text) {
  std::string result;
  size_t begin = 0;
  for (const MarkedText::Range& range : text.ranges()) {
    result += (begin == 0 ? "" : "|") + std::string(to_string(range.source.author)) +
              (range.source.trusted ? "!:" : ":") + text.bytes().substr(begin, range.end - begin);
    begin = range.end;
  }
  return result;
}
std::string sources_of(const std::string& source, const Variables& variables) {
  Result<Rendered> rendered = render(source, variables);
  return rendered ? by_source(rendered->text) : rendered.failure().message;
}

// What the language makes of a template, recorded from jinja2 with transformers' settings.
TEST(TemplateGolden, EqualsJinjaUnderTransformersSettings) {
  std::vector<Json> rows = read_rows(text_goldens() / "templates.jsonl");
  Variables variables = variables_of(rows[0].at("variables"));
  int big = 0;
  for (auto& [name, value] : variables) {
    if (name == "big") value = Value(BigInteger{"123456789012345678901234567890"}), ++big;
  }
  ASSERT_EQ(big, 1);
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::string& source = rows[i].at("source").as_string();
    Result<Rendered> rendered = render(source, variables);
    if (rows[i].find("error") != nullptr) {
      EXPECT_FALSE(rendered) << source << "\nrendered: " << rendered->text.bytes();
    } else if (!rendered) {
      ADD_FAILURE() << source << "\nfailed: " << rendered.failure().message;
    } else {
      EXPECT_EQ(rendered->text.bytes(), rows[i].at("text").as_string()) << source;
    }
  }
}

TEST(Template, TextKeepsItsSourcesThroughFiltersAndSlices) {
  Variables variables = {{"said", Value("  Hi <there>, you\n", kUser)},
                         {"other", Value("x", Source{Author::kTool, false})},
                         {"data", *parse_json_value(R"({"k": [1, "v\n"]})", Source{Author::kTool, false})}};
  EXPECT_EQ(sources_of("<{{ said }}>", variables), "template!:<|user:  Hi <there>, you\n|template!:>");
  EXPECT_EQ(sources_of("{{ '<' + said|trim + '>' + other }}", variables),
            "template!:<|user:Hi <there>, you|template!:>|tool:x");
  EXPECT_EQ(sources_of("{{ said[2:4] ~ other[::-1] ~ said.strip()[-3:] }}", variables),
            "user:Hi|tool:x|user:you");
  EXPECT_EQ(sources_of("{{ said.strip()|upper|replace('THERE', other) }}", variables),
            "user:HI <|tool:x|user:>, YOU");
  EXPECT_EQ(sources_of("{{ said.split(',')[0].split()|join('+') }}", variables),
            "user:Hi|template!:+|user:<there>");
  EXPECT_EQ(sources_of("{{ said.strip()|e }}", variables), "user:Hi &lt;there&gt;, you");
  EXPECT_EQ(sources_of("{{ data|tojson }}", variables), R"(tool:{"k": [1, "v\n"]})");
  EXPECT_EQ(sources_of("{{ {'a': other}|tojson }}", variables), R"(template!:{"a": |tool:"x"|template!:})");
  EXPECT_EQ(sources_of("{{ data }}", variables), R"(tool:{'k': [|template!:1|tool:, 'v\n']})");
  EXPECT_EQ(
      sources_of(
          "{% set b %}({{ other }}){% endset %}{{ b }}{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(other) }}",
          variables),
      "template!:(|tool:x|template!:)[|tool:x|template!:]");
  EXPECT_EQ(sources_of("{{ said.strip()|indent(1, true) }}{{ other * 2 }}{{ said|length }}", variables),
            "template!: |user:Hi <there>, you|tool:xx|template!:18");
}

TEST(Template, WhatIsUnknownIsNamedWithLineAndColumn) {
  EXPECT_EQ(error_of("a\n  {{ x|shout }}"), "there is no filter 'shout' (template line 2, column 8)");
  EXPECT_EQ(error_of("{% include 'x' %}"), "the tag 'include' is not supported (template line 1, column 4)");
  EXPECT_EQ(error_of("{{ x is pretty }}"), "there is no test 'pretty' (template line 1, column 9)");
  EXPECT_EQ(error_of("é{{ 'x }}"), "a string is not closed (template line 1, column 5)");
  EXPECT_EQ(error_of("{% for x in [] recursive %}{% endfor %}"),
            "recursive loops are not supported (template line 1, column 16)");
  EXPECT_EQ(error_of("\n\n{{ 'x' % 3 }}"),
            "formatting text with '%' is not supported; join it with '~' (template line 3, column 8)");
  EXPECT_EQ(error_of("{{ a.b }}"), "'a' is undefined (template line 1, column 5)");
  EXPECT_EQ(error_of("{% if 1 %}"),
            "the template ends where 'endif' was expected (template line 1, column 11)");
  EXPECT_EQ(error_of("{{ raise_exception('No tools') }}"), "No tools (template line 1, column 19)");
}

TEST(Template, HostileTemplatesEndInASentence) {
  EXPECT_THAT(error_of("{% for a in range(99) %}{% for b in range(99) %}{% endfor %}{% endfor %}", {},
                       {.max_steps = 5000}),
              HasSubstr("too many steps"));
  EXPECT_THAT(
      error_of(
          "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
          {}, {.max_bytes = 1 << 20}),
      HasSubstr("too much text"));
  EXPECT_THAT(error_of("{{ 'x' * 10 ** 15 }}"), HasSubstr("too much text"));
  EXPECT_THAT(error_of("{{ [0] * 9223372036854775807 }}"), HasSubstr("too much text"));
  EXPECT_THAT(error_of("{{ 'x'.ljust(10 ** 15) }}"), HasSubstr("too much text"));
  EXPECT_THAT(error_of("{{ range(10 ** 9) }}"), HasSubstr("longer than 100000"));
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("recurses too deeply"));
  EXPECT_THAT(
      error_of("{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor %}"),
      HasSubstr("200 levels"));
  EXPECT_THAT(error_of("{{ " + std::string(10000, '(') + "1" + std::string(10000, ')') + "}}"),
              HasSubstr("too deep"));
  EXPECT_THAT(error_of("{{ " + std::string(10000, '[') + "1" + std::string(10000, ']') + "}}"),
              HasSubstr("too deep"));
  EXPECT_THAT(error_of("{{ " + std::string(10000, '-') + "1 }}"), HasSubstr("too deep"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 10000; ++i) sum += "+1";
  EXPECT_THAT(error_of(sum + " }}"), HasSubstr("too deep"));
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if 1 %}";
  EXPECT_THAT(error_of(blocks), HasSubstr("too deep"));
  EXPECT_THAT(error_of("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of("{% set ns = namespace() %}{% set ns.m = range %}"), HasSubstr("kept in a namespace"));
  EXPECT_EQ(text_of("[{{ ''.__class__ }}]"), "[]");
  EXPECT_THAT(error_of("{{ [].append(1) }}"), HasSubstr("would change a list"));
}

TEST(Template, NumbersKeepTheirText) {
  Variables variables = {
      {"v", *parse_json_value("[123456789012345678901234567890, 1.0, 1e5, -0.0, 1E400]", kUser)}};
  EXPECT_EQ(text_of("{{ v|tojson }} {{ v }}", variables),
            "[123456789012345678901234567890, 1.0, 100000.0, -0.0, Infinity] "
            "[123456789012345678901234567890, 1.0, 100000.0, -0.0, inf]");
}

TEST(Template, JsonTextIsReadAsPythonReadsIt) {
  Variables variables = {
      {"v", *parse_json_value(R"( {"a": 1, "b": "\u00e9\ud83d\ude00\ud800x", "a": 2} )", kUser)}};
  EXPECT_EQ(text_of("{{ v|tojson }}", variables), "{\"a\": 2, \"b\": \"é😀\uFFFDx\"}");
  EXPECT_FALSE(parse_json_value("{} x", kUser));
  EXPECT_FALSE(parse_json_value("", kUser));
  EXPECT_FALSE(parse_json_value(std::string(1000, '['), kUser));
  EXPECT_EQ(text_of("{{ v }}", {{"v", *parse_json_value("12", kUser)}}), "12");
}

TEST(Template, LoopsOverMessagesLeaveTheirPlaces) {
  std::vector<Value> messages;
  for (int i = 0; i < 2; ++i)
    messages.emplace_back(
        make_dict({{Value("content", kUser), Value("m" + std::to_string(i), kUser)}}, kUser, i));
  Rendered rendered = *render("{{ messages|length }}:{% for m in messages %}<{{ m.content }}>{% endfor %}.",
                              {{"messages", make_list(messages)}});
  EXPECT_EQ(rendered.text.bytes(), "2:<m0><m1>.");
  ASSERT_EQ(rendered.messages.size(), 2u);
  EXPECT_EQ(rendered.messages[0].bytes, (Rendered::Span{2, 6}));
  EXPECT_EQ(rendered.messages[1].bytes, (Rendered::Span{6, 10}));
  EXPECT_EQ(rendered.messages[1].message, 1);
}

}  // namespace
}  // namespace stoker::jinja
