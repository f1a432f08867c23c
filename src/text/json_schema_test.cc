#include "text/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string problem(const char* schema, const char* value) {
  return JsonSchema(Json::parse(schema), "tool 'f'").validate(Json::parse(value)).value_or("");
}

TEST(JsonSchema, SentencesSayWhereAndWhat) {
  const char* schema = R"({"type": "object", "properties": {
      "expression": {"type": "string", "description": "what to compute"},
      "digits": {"type": "integer", "minimum": 0, "maximum": 10}},
    "required": ["expression"], "additionalProperties": false})";
  EXPECT_EQ(problem(schema, R"({"expression": "1+2"})"), "");
  EXPECT_EQ(problem(schema, R"({"expression": "1+2", "digits": 3})"), "");
  EXPECT_EQ(problem(schema, R"({"expression": 12})"),
            "arguments.expression must be a string, but is the integer 12.");
  EXPECT_EQ(problem(schema, R"({})"), "arguments lacks the required member \"expression\".");
  EXPECT_EQ(problem(schema, R"({"expression": "1", "digit": 2})"),
            "arguments has the unknown member \"digit\"; the known ones are: expression, digits.");
  EXPECT_EQ(problem(schema, R"({"expression": "1", "digits": 11})"),
            "arguments.digits must be at most 10, but is the integer 11.");
  EXPECT_EQ(problem(schema, R"([1])"), "arguments must be an object, but is the array [1].");
}

struct Case {
  const char* schema;
  const char* valid;    // a JSON list of valid values
  const char* invalid;  // a JSON list of invalid ones
};

// After the JSON Schema test suite (draft 2020-12), the keywords that are supported.
TEST(JsonSchema, KeywordsMeanWhatTheStandardSays) {
  const Case cases[] = {
      {R"({"type": "integer"})", "[1, 1.0, -3]", "[1.5, \"1\", null, true]"},
      {R"({"type": "number"})", "[1, 1.5]", "[\"1\", true]"},
      {R"({"type": ["string", "null"]})", "[\"a\", null]", "[1, {}]"},
      {R"({"type": "boolean"})", "[true, false]", "[0, \"true\", null]"},
      {R"({"enum": [1, "a", {"x": [2]}]})", "[1, 1.0, \"a\", {\"x\": [2]}]",
       "[2, \"b\", {\"x\": [3]}, {}, null]"},
      {R"({"const": {"a": 1, "b": 2}})", R"([{"b": 2, "a": 1}])", "[{}, 1]"},
      {R"({"items": {"type": "integer"}})", "[[], [1, 2], \"not an array\"]", "[[1, \"x\"]]"},
      {R"({"minItems": 1, "maxItems": 2})", "[[1], [1, 2], \"\"]", "[[], [1, 2, 3]]"},
      {R"({"uniqueItems": true})", "[[1, 2], [[1], [2]], [\"1\", 1]]",
       "[[1, 1.0], [{\"a\": 1}, {\"a\": 1}]]"},
      {R"({"minimum": 1, "maximum": 3})", "[1, 3, 2.5, \"x\"]", "[0.9, 3.1]"},
      {R"({"exclusiveMinimum": 1, "exclusiveMaximum": 3})", "[1.1, 2.9]", "[1, 3]"},
      {R"({"multipleOf": 0.01})", "[0.07, 4.35, 0, 3]", "[0.075]"},
      {R"({"multipleOf": 2})", "[4, -2]", "[3]"},
      {R"({"minLength": 2, "maxLength": 3})", R"(["éé", "abc", "世界世", 7])", R"(["é", "abcd"])"},
      {R"({"additionalProperties": {"type": "integer"}})", R"([{"a": 1}, 3])", R"([{"a": "x"}])"},
      {R"({"minProperties": 1, "maxProperties": 1})", R"([{"a": 1}, []])", R"([{}, {"a": 1, "b": 2}])"},
      {R"({"properties": {"a": false}})", "[{}, {\"b\": 1}]", "[{\"a\": 1}]"},
      {R"({"anyOf": [{"type": "integer"}, {"minLength": 2}]})", "[1, \"ab\"]", "[\"a\"]"},
      {R"({"allOf": [{"minimum": 1}, {"maximum": 2}]})", "[1.5]", "[0, 3]"},
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", "[1, 2.5]", "[3, 1.5]"},
      {R"({"not": {"type": "string"}})", "[1, null]", "[\"a\"]"},
      {R"({"type": "object", "nullable": true})", "[{}, null]", "[1]"},
      {R"({"pattern": "^a+\\d$"})", R"(["aa1", 3])", R"(["aa", "aa1\n", "a٣"])"},
      {R"({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": false})",
       R"([{"x1": 1}, {}])", R"([{"x1": "1"}, {"y": 1}])"},
      {R"({"propertyNames": {"maxLength": 2}})", R"([{"ab": 1}])", R"([{"abc": 1}])"},
      {R"({"prefixItems": [{"type": "integer"}], "items": false})", "[[1], []]", "[[\"a\"], [1, 2]]"},
      {R"({"items": [{"type": "integer"}], "additionalItems": {"type": "string"}})", "[[1, \"a\"], []]",
       "[[\"a\"], [1, 2]]"},
      {R"({"contains": {"const": 1}, "maxContains": 2})", "[[1], [1, 2, 1]]", "[[], [2], [1, 1, 1]]"},
      {R"({"contains": {"const": 1}, "minContains": 0})", "[[], [2]]", "[]"},
      {R"({"dependentRequired": {"a": ["b"]}})", R"([{"a": 1, "b": 2}, {"b": 1}])", R"([{"a": 1}])"},
      {R"({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}})",
       R"([{"a": 1, "b": 2}, {"c": 1, "d": 2}])", R"([{"a": 1}, {"c": 1}])"},
      {R"({"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"type": "string"}})", "[2, \"x\"]",
       "[1, null]"},
      {R"({"minimum": 1, "exclusiveMinimum": true})", "[2]", "[1]"},
      {R"({"$defs": {"a/b": {"type": "integer"}}, "$ref": "#/$defs/a~1b", "minimum": 2})", "[2]",
       "[1, \"x\"]"},
      {R"({"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}})",
       R"([{"v": 1, "next": {"v": 2, "next": {}}}])", R"([{"next": {"next": {"v": "x"}}}])"},
      {R"({"maximum": 9007199254740992})", "[9007199254740992]", "[9007199254740993]"},
      {R"({"type": "integer"})", "[123456789012345678901234567890, 1e300, -0.0]", "[1e-300]"},
      {R"({"multipleOf": 0.123456789})", "[0.370370367]", "[1e308]"},
      {"true", "[1, null]", "[]"},
      {"{}", "[1, null]", "[]"},
      {"false", "[]", "[1, null]"},
  };
  for (const Case& c : cases) {
    JsonSchema schema(Json::parse(c.schema), "tool 'f'");
    Json valid = Json::parse(c.valid);
    Json invalid = Json::parse(c.invalid);
    for (const Json& value : valid.as_array()) {
      EXPECT_EQ(schema.validate(value).value_or(""), "") << c.schema << " " << value.dump();
    }
    for (const Json& value : invalid.as_array()) {
      EXPECT_TRUE(schema.validate(value).has_value()) << c.schema << " " << value.dump();
    }
  }
  EXPECT_FALSE(JsonSchema(Json(), "tool 'f'").validate(Json(3)));
}

TEST(JsonSchema, LongValuesAreCutInTheSentence) {
  std::string sentence = problem(R"({"type": "integer"})", ("\"" + std::string(5000, 'x') + "\"").c_str());
  EXPECT_LT(sentence.size(), 200u);
  EXPECT_THAT(sentence, HasSubstr("must be an integer"));
}

TEST(JsonSchema, SchemasItCannotCheckAreRefusedByKeyword) {
  auto refusal = [](const char* schema) {
    return input_error_of([&] { JsonSchema(Json::parse(schema), "tool 'f'"); });
  };
  EXPECT_THAT(refusal(R"({"properties": {"a": {"pattern": "("}}})"),
              AllOf(HasSubstr("tool 'f'"), HasSubstr("schema.properties.a.pattern")));
  EXPECT_THAT(refusal(R"({"patternProperties": {"[": {}}})"), HasSubstr("schema.patternProperties.["));
  EXPECT_THAT(refusal(R"({"unevaluatedProperties": false})"), HasSubstr("schema.unevaluatedProperties"));
  EXPECT_THAT(refusal(R"({"$ref": "other.json"})"), HasSubstr("leads nowhere"));
  EXPECT_THAT(refusal(R"({"$ref": "#/default", "default": {"minimum": "x"}})"), HasSubstr("minimum"));
  EXPECT_THAT(refusal(R"({"$ref": "#/x"})"), HasSubstr("$ref"));
  EXPECT_THAT(refusal(R"({"type": "float"})"), HasSubstr("schema.type cannot be \"float\""));
  EXPECT_THAT(refusal(R"({"type": []})"), HasSubstr("schema.type"));
  EXPECT_THAT(refusal(R"({"required": "a"})"), HasSubstr("schema.required"));
  EXPECT_THAT(refusal(R"({"required": [1]})"), HasSubstr("schema.required"));
  EXPECT_THAT(refusal(R"({"properties": {"a": 3}})"), HasSubstr("schema.properties.a"));
  EXPECT_THAT(refusal(R"({"items": [3]})"), HasSubstr("schema.items"));
  EXPECT_THAT(refusal(R"({"minLength": -1})"), HasSubstr("schema.minLength"));
  EXPECT_THAT(refusal(R"({"minimum": "1"})"), HasSubstr("schema.minimum"));
  EXPECT_THAT(refusal(R"({"multipleOf": 0})"), HasSubstr("schema.multipleOf"));
  EXPECT_THAT(refusal(R"({"anyOf": []})"), HasSubstr("schema.anyOf"));
  EXPECT_THAT(refusal(R"({"anyOf": [{"enum": 1}]})"), HasSubstr("schema.anyOf[0].enum"));
  EXPECT_THAT(refusal("3"), HasSubstr("tool 'f'"));
  std::string deep = "{}";
  for (int i = 0; i < 100; ++i) deep = R"({"not": )" + deep + "}";
  EXPECT_THAT(refusal(deep.c_str()), HasSubstr("too deeply"));
}

TEST(JsonSchema, AnnotationsHaveNoEffect) {
  EXPECT_EQ(
      problem(R"({"title": 1, "default": 3, "format": "date", "examples": 4, "type": "string"})", "\"x\""),
      "");
}

// Recorded from Python's jsonschema (goldens/make.sh).
TEST(JsonSchema, JudgesAsTheReferenceDoes) {
  int valid = 0;
  for (const Json& row : read_rows(text_goldens() / "json_schema.jsonl")) {
    std::optional<std::string> found = JsonSchema(row.at("schema"), "golden").validate(row.at("value"));
    EXPECT_EQ(!found, row.at("valid").as_bool()) << row.dump() << " " << found.value_or("");
    valid += !found;
  }
  EXPECT_GT(valid, 100);
}

TEST(JsonSchema, TheNearestFormIsTold) {
  const char* schema =
      R"({"anyOf": [{"type": "null"}, {"properties": {"a": {"items": {"type": "integer"}}}}]})";
  EXPECT_EQ(
      problem(schema, R"({"a": [1, "x"]})"),
      "arguments fits none of its 2 allowed forms; of the nearest: arguments.a[1] must be an integer, but is "
      "the string \"x\".");
}

TEST(JsonSchema, HostileSchemasAndValuesAreBounded) {
  // A reference to itself that consumes nothing.
  EXPECT_THAT(problem(R"({"$ref": "#"})", "1"), HasSubstr("too deeply"));
  // Forms that double at each level.
  EXPECT_THAT(
      problem(R"({"anyOf": [{"allOf": [{"$ref": "#"}, false]}, {"allOf": [{"$ref": "#"}, false]}]})", "1"),
      testing::Not(testing::IsEmpty()));
  // A pattern that backtracks without end.
  std::string long_text = "\"" + std::string(3000, 'a') + "!\"";
  EXPECT_THAT(problem(R"({"pattern": "^(a+)+$"})", long_text.c_str()), HasSubstr("too much work"));
  EXPECT_THAT(problem(R"({"not": {"pattern": "^(a|a)*b"}})", long_text.c_str()),
              testing::AnyOf("", HasSubstr("work")));
  // Long lists of choices and members stay out of the sentence.
  Json choices = Json::array();
  Json members = Json::object();
  for (int i = 0; i < 5000; ++i) {
    choices.as_array().push_back("choice " + std::to_string(i));
    members.as_object().emplace_back("member" + std::to_string(i), true);
  }
  JsonSchema schema(
      Json::object({{"properties", members},
                    {"additionalProperties", false},
                    {"patternProperties", Json::object({{"^c", Json::object({{"enum", choices}})}})}}),
      "tool 'f'");
  EXPECT_LT(schema.validate(Json::object({{"x", 1}})).value_or("").size(), 1100u);
  EXPECT_LT(schema.validate(Json::object({{"c", 1}})).value_or("").size(), 1100u);
  EXPECT_TRUE(schema.validate(Json::object({{"c", 1}})));
}

}  // namespace
}  // namespace stoker
