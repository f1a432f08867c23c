#include "text/post_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"
#include "text/tokenizer_part.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PostProcessor post_processor_of(const char* text) {
  static const StringToId kIds = {{"<s>", 1}, {"</s>", 2}, {"[CLS]", 3}, {"[SEP]", 4}};
  Json json = Json::parse(text);
  return read_post_processor({json, "post_processor", "t.json"}, kIds);
}

constexpr const char* kTemplate = R"({"type": "TemplateProcessing",
  "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "</s>", "type_id": 0}}],
  "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
                     "</s>": {"id": "</s>", "ids": [2, 2], "tokens": ["</s>", "</s>"]}}})";
constexpr const char* kRoberta = R"({"type": "RobertaProcessing", "cls": ["[CLS]", 3], "sep": ["[SEP]", 4]})";

TEST(PostProcessor, ReadsWhatStandsAroundASingleText) {
  PostProcessor both = post_processor_of(kTemplate);
  EXPECT_THAT(both.before, ElementsAre(1));
  EXPECT_THAT(both.after, ElementsAre(2, 2));
  PostProcessor roberta = post_processor_of(kRoberta);
  EXPECT_THAT(roberta.before, ElementsAre(3));
  EXPECT_THAT(roberta.after, ElementsAre(4));
  EXPECT_THAT(post_processor_of("null").before, IsEmpty());
  EXPECT_THAT(post_processor_of(R"({"type": "ByteLevel"})").before, IsEmpty());
}

TEST(PostProcessor, TheLaterOfASequenceStandsFurtherOut) {
  std::string text =
      std::string(R"({"type": "Sequence", "processors": [)") + kRoberta + "," + kTemplate + "]}";
  PostProcessor sequence = post_processor_of(text.c_str());
  EXPECT_THAT(sequence.before, ElementsAre(1, 3));
  EXPECT_THAT(sequence.after, ElementsAre(4, 2, 2));
}

TEST(PostProcessor, TPL_07_WhatIsThereIsNotPutThereAgain) {
  PostProcessor both = post_processor_of(kTemplate);
  EXPECT_THAT(both.surround({7, 8}), ElementsAre(1, 7, 8, 2, 2));
  EXPECT_THAT(both.surround({1, 7, 8}), ElementsAre(1, 7, 8, 2, 2));
  EXPECT_THAT(both.surround({1, 7, 2, 2}), ElementsAre(1, 7, 2, 2));
  EXPECT_THAT(both.surround({}), ElementsAre(1, 2, 2));
}

TEST(PostProcessor, RefusesBrokenOnes) {
  auto refusal = [](const std::string& text) {
    return input_error_of([&] { post_processor_of(text.c_str()); });
  };
  EXPECT_THAT(refusal(R"({"type": "Odd"})"), HasSubstr("'Odd'; Stoker supports ByteLevel"));
  EXPECT_THAT(refusal(R"({"type": "TemplateProcessing", "single": []})"), HasSubstr("has no Sequence"));
  EXPECT_THAT(refusal(R"({"type": "TemplateProcessing", "special_tokens": {},
                          "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})"),
              HasSubstr("post_processor.special_tokens has no '<s>'"));
  EXPECT_THAT(refusal(R"({"type": "BertProcessing", "cls": ["[CLS]", 99], "sep": ["[SEP]", 4]})"),
              HasSubstr("post_processor.cls[1] is 99, the id of no token"));
  EXPECT_THAT(refusal(R"({"type": "BertProcessing", "cls": "x", "sep": ["[SEP]", 4]})"),
              HasSubstr("post_processor.cls is no name with its id"));
}

}  // namespace
}  // namespace stoker
