#include "trajectory/episode_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "trajectory/testing/random_trajectory.h"

namespace stoker {
namespace {

EpisodeRecord record() {
  EpisodeRecord result;
  result.id = {17, 3, 1};
  result.task_id = "t-17";
  result.trajectory.append(SpanKind::kPrompt, 0, std::vector<int32_t>{1});
  result.failure = Failure{FailureClass::kTool, "timeout", "The tool \"x\" ran into its deadline."};
  result.rewards = {{"answer", 0.5}, {"format", -1e-300}};
  result.tool_calls = 2;
  result.tool_errors = 1;
  result.start_time = -5;
  result.end_time = INT64_MAX;
  return result;
}

std::string error_of(const Json& json) {
  try {
    EpisodeRecord::from_json(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(EpisodeId, TextFormsReadBack) {
  EXPECT_EQ((EpisodeId{17, 3, 0}).to_string(), "17.3");
  EXPECT_EQ((EpisodeId{17, 3, 1}).to_string(), "17.3.1");
  RandomStream random(StreamKey{.run_seed = 1});
  for (int i = 0; i < 1000; ++i) {
    EpisodeId id{random.bits() >> random.below(64), static_cast<uint32_t>(random.bits() >> random.below(64)),
                 static_cast<uint32_t>(random.below(3))};
    ASSERT_EQ(EpisodeId::parse(id.to_string()), id);
  }
  EXPECT_EQ(EpisodeId::parse("18446744073709551615.4294967295.4294967295"),
            (EpisodeId{UINT64_MAX, UINT32_MAX, UINT32_MAX}));
}

TEST(EpisodeId, OtherTextsAreRefused) {
  for (const char* text : {"", "1", "1.", ".1", "1.2.", "1.2.0", "1.2.3.4", "01.2", "1.02", "-1.2", "1.-2",
                           " 1.2", "1.2 ", "1,2", "18446744073709551616.1", "1.4294967296", "a.b"}) {
    EXPECT_EQ(EpisodeId::parse(text), std::nullopt) << text;
  }
}

TEST(EpisodeRecord, ReadsBack) {
  EpisodeRecord failed = record();
  EXPECT_EQ(EpisodeRecord::from_json(Json::parse(failed.to_json().dump())), failed);
  EpisodeRecord done = record();
  done.failure.reset();
  done.reward = 1.0;
  done.success = true;
  done.purpose = "evaluate";
  EpisodeRecord back = EpisodeRecord::from_json(Json::parse(done.to_json().dump()));
  EXPECT_EQ(back, done);
  EXPECT_EQ(back.failure, std::nullopt);
  EXPECT_FALSE(back == failed);
}

TEST(EpisodeRecord, RandomRecordsReadBackBitForBit) {
  RandomStream random(StreamKey{.run_seed = 2});
  for (int i = 0; i < 300; ++i) {
    EpisodeRecord original = record();
    original.id.task_ordinal = random.bits();
    original.trajectory = testing::random_trajectory(random);
    if (random.below(2) == 0) original.reward = random.normal();
    original.rewards["x"] = random.normal() * 1e200;
    std::string text = original.to_json().dump();
    EpisodeRecord back = EpisodeRecord::from_json(Json::parse(text));
    ASSERT_EQ(back, original) << text;
    ASSERT_EQ(back.to_json().dump(), text);
  }
}

TEST(EpisodeRecord, NoRewardIsNotZero) {
  EpisodeRecord unscored = record();
  const Json written = unscored.to_json();
  EXPECT_EQ(written.find("reward"), nullptr);
  EpisodeRecord zero = record();
  zero.reward = 0.0;
  EpisodeRecord back = EpisodeRecord::from_json(zero.to_json());
  EXPECT_EQ(back.reward, 0.0);
  EXPECT_FALSE(back == unscored);
}

TEST(EpisodeRecord, ARewardThatIsNotFiniteIsRefused) {
  EpisodeRecord bad = record();
  bad.reward = std::nan("");
  EXPECT_THROW(bad.to_json(), Error);
  bad.reward.reset();
  bad.rewards["answer"] = std::numeric_limits<double>::infinity();
  EXPECT_THROW(bad.to_json(), Error);
}

TEST(EpisodeRecord, BadInputIsNamed) {
  const Json good = record().to_json();
  auto with = [&](const char* name, Json value) {
    Json changed = good;
    changed.set(name, std::move(value));
    return error_of(changed);
  };
  EXPECT_EQ(error_of(good), "");
  EXPECT_EQ(with("id", "x"), "episode.id: \"x\" is no episode id such as \"17.3\".");
  EXPECT_EQ(with("id", 17), "episode.id: expected a string, found integer.");
  EXPECT_EQ(with("rewrad", 1), "episode.rewrad: unknown member.");
  EXPECT_EQ(with("reward", nullptr), "episode.reward: expected a number, found null.");
  EXPECT_EQ(with("rewards", Json::object({{"a", "b"}})), "episode.rewards.a: expected a number.");
  EXPECT_EQ(with("success", 1), "episode.success: expected a boolean.");
  EXPECT_EQ(with("tool_calls", -1), "episode.tool_calls: expected an integer of 0 to 2147483647, found -1.");
  EXPECT_EQ(with("failure", Json::object({{"class", "luck"}, {"reason", ""}, {"message", ""}})),
            "episode.failure.class: unknown name \"luck\".");
  EXPECT_EQ(with("trajectory", Json::object()), "trajectory.spans: the member is missing.");
}

}  // namespace
}  // namespace stoker
