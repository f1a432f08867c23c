#include "trajectory/trajectory.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "trajectory/testing/random_trajectory.h"

namespace stoker {
namespace {

std::string error_of(const Json& json) {
  try {
    Trajectory::from_json(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

std::string error_of(const char* text) { return error_of(Json::parse(text)); }

// Two turns: [1 2 3] prompt, [4 5] sampled, [6] observation, [7] injected, [8] sampled.
Trajectory two_turns() {
  Trajectory trajectory;
  trajectory.append(SpanKind::kPrompt, 0, std::vector<int32_t>{1, 2, 3}, 10, 11);
  trajectory.begin_sampled(0, 12);
  trajectory.append_sampled(4, -0.5f, 3);
  trajectory.append_sampled(5, -0.25f, 4, true);
  trajectory.close_sampled(StopReason::kStopToken, 20);
  trajectory.append(SpanKind::kObservation, 0, std::vector<int32_t>{6}, 21, 22);
  trajectory.append(SpanKind::kInjected, 1, std::vector<int32_t>{7});
  trajectory.begin_sampled(1, 23);
  trajectory.append_sampled(8, -1.0f, 5);
  trajectory.close_sampled(StopReason::kLength, 30);
  return trajectory;
}

// The plain twin of the bookkeeping: every array derived again from the spans.
void expect_consistent(const Trajectory& trajectory) {
  ASSERT_EQ(trajectory.tokens().size(), static_cast<size_t>(trajectory.size()));
  ASSERT_EQ(trajectory.log_probabilities().size(), trajectory.tokens().size());
  int32_t end = 0;
  for (size_t i = 0; i < trajectory.version_runs().size(); ++i) {
    const VersionRun& run = trajectory.version_runs()[i];
    ASSERT_EQ(run.begin, end);
    ASSERT_LT(run.begin, run.end);
    if (i > 0) ASSERT_NE(run.version, trajectory.version_runs()[i - 1].version);
    for (int32_t token = run.begin; token < run.end; ++token) {
      ASSERT_EQ(trajectory.version(token), run.version);
    }
    end = run.end;
  }
  ASSERT_EQ(end, trajectory.size());
  ASSERT_EQ(trajectory.loss_mask().size(), trajectory.tokens().size());
  int32_t next = 0;
  int32_t sampled = 0;
  std::vector<int32_t> turns;
  for (const Span& span : trajectory.spans()) {
    ASSERT_EQ(span.begin, next);
    ASSERT_LE(span.begin, span.end);
    next = span.end;
    bool is_sampled = span.kind == SpanKind::kSampled;
    if (is_sampled && (turns.empty() || turns.back() != span.turn)) turns.push_back(span.turn);
    for (int32_t i = span.begin; i < span.end; ++i) {
      ASSERT_EQ(trajectory.trained(i), is_sampled);
      ASSERT_EQ(trajectory.loss_mask()[i], is_sampled ? 1 : 0);
      ASSERT_EQ(std::isnan(trajectory.log_probability(i)), !is_sampled);
      ASSERT_EQ(trajectory.version(i) >= 0, is_sampled);
      ASSERT_TRUE(is_sampled || !trajectory.mixed(i));
      sampled += is_sampled;
    }
  }
  ASSERT_EQ(next, trajectory.size());
  ASSERT_EQ(trajectory.sampled_count(), sampled);
  ASSERT_EQ(trajectory.turn_count(), static_cast<int32_t>(turns.size()));
}

TEST(Trajectory, KeepsTokensSpansAndVersions) {
  Trajectory trajectory = two_turns();
  expect_consistent(trajectory);
  EXPECT_EQ(trajectory.size(), 8);
  EXPECT_EQ(trajectory.sampled_count(), 3);
  EXPECT_EQ(trajectory.turn_count(), 2);
  EXPECT_EQ(trajectory.oldest_version(), 3);
  EXPECT_EQ(trajectory.newest_version(), 5);
  EXPECT_EQ(trajectory.loss_mask(), (std::vector<uint8_t>{0, 0, 0, 1, 1, 0, 0, 1}));
  EXPECT_TRUE(trajectory.mixed(4));
  EXPECT_FALSE(trajectory.mixed(3));
  ASSERT_EQ(trajectory.spans().size(), 5u);
  EXPECT_EQ(trajectory.spans()[1], (Span{SpanKind::kSampled, 0, 3, 5, 12, 20, StopReason::kStopToken}));
  EXPECT_EQ(Trajectory().oldest_version(), std::nullopt);
  EXPECT_EQ(Trajectory().newest_version(), std::nullopt);
}

TEST(Trajectory, MSK_11_AResumedResponseKeepsAllLengthsEqual) {
  Trajectory trajectory;
  trajectory.begin_sampled(0);
  for (int32_t token : {11, 12, 13}) trajectory.append_sampled(token, -0.5f, 4);
  trajectory.close_sampled(StopReason::kAborted);
  trajectory = Trajectory::from_json(trajectory.to_json());
  trajectory.begin_sampled(0);
  for (int32_t token : {14, 15}) trajectory.append_sampled(token, -0.5f, 5);
  trajectory.close_sampled(StopReason::kStopToken);
  expect_consistent(trajectory);
  EXPECT_EQ(trajectory.loss_mask(5), (std::vector<uint8_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(trajectory.loss_mask(), (std::vector<uint8_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(trajectory.turn_count(), 1);
}

TEST(Trajectory, AppendsAreChecked) {
  std::vector<int32_t> one = {1};
  std::vector<int32_t> negative = {-1};
  Trajectory trajectory = two_turns();
  const Trajectory before = trajectory;
  EXPECT_THROW(trajectory.append(SpanKind::kSampled, 1, one), Error);
  EXPECT_THROW(trajectory.append(SpanKind::kPrompt, 1, one), Error);
  EXPECT_THROW(trajectory.append(SpanKind::kObservation, 0, one), Error);
  EXPECT_THROW(trajectory.append(SpanKind::kObservation, 1, negative), Error);
  EXPECT_THROW(trajectory.begin_sampled(0), Error);
  EXPECT_THROW(trajectory.append_sampled(1, 0, 0), Error);
  EXPECT_THROW(trajectory.close_sampled(StopReason::kNone), Error);
  EXPECT_EQ(trajectory, before);
  trajectory.begin_sampled(2);
  EXPECT_THROW(trajectory.begin_sampled(2), Error);
  EXPECT_THROW(trajectory.append(SpanKind::kObservation, 2, one), Error);
  EXPECT_THROW(trajectory.append_sampled(-1, 0, 0), Error);
  EXPECT_THROW(trajectory.append_sampled(1, 0, -1), Error);
  EXPECT_THROW(trajectory.append_sampled(1, std::nanf(""), 0), Error);
  EXPECT_THROW(trajectory.append_sampled(1, -std::numeric_limits<float>::infinity(), 0), Error);
  expect_consistent(trajectory);
  EXPECT_THROW(Trajectory().append(SpanKind::kPrompt, -1, one), Error);
}

TEST(Trajectory, NoTokensAddNoSpanButAnEmptySampledSpanStays) {
  Trajectory trajectory;
  trajectory.append(SpanKind::kPrompt, 0, {});
  EXPECT_TRUE(trajectory.spans().empty());
  trajectory.begin_sampled(0);
  trajectory.close_sampled(StopReason::kAborted);
  EXPECT_EQ(trajectory.spans().size(), 1u);
  EXPECT_EQ(trajectory.turn_count(), 1);
  EXPECT_EQ(Trajectory::from_json(trajectory.to_json()), trajectory);
}

TEST(Trajectory, JsonFormIsCompact) {
  EXPECT_EQ(two_turns().to_json().dump(),
            R"({"spans":[{"kind":"prompt","turn":0,"start_time":10,"end_time":11,"tokens":[1,2,3]},)"
            R"({"kind":"sampled","turn":0,"start_time":12,"end_time":20,"tokens":[4,5],)"
            R"("log_probabilities":[-0.5,-0.25],"versions":[[3,1],[4,1]],"mixed":[0,1],)"
            R"("stop_reason":"stop_token"},)"
            R"({"kind":"observation","turn":0,"start_time":21,"end_time":22,"tokens":[6]},)"
            R"({"kind":"injected","turn":1,"tokens":[7]},)"
            R"({"kind":"sampled","turn":1,"start_time":23,"end_time":30,"tokens":[8],)"
            R"("log_probabilities":[-1.0],"versions":[[5,1]],"stop_reason":"length"}]})");
}

TEST(Trajectory, RandomTrajectoriesReadBackBitForBit) {
  RandomStream random(StreamKey{.run_seed = 1});
  for (int i = 0; i < 500; ++i) {
    Trajectory trajectory = testing::random_trajectory(random);
    expect_consistent(trajectory);
    std::string text = trajectory.to_json().dump();
    Trajectory back = Trajectory::from_json(Json::parse(text));
    expect_consistent(back);
    ASSERT_EQ(back, trajectory) << text;
    ASSERT_EQ(back.to_json().dump(), text);
  }
}

TEST(Trajectory, EveryFloatReadsBack) {
  RandomStream random(StreamKey{.run_seed = 2});
  Trajectory trajectory;
  trajectory.begin_sampled(0);
  std::vector<float> values = {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::lowest(), -0.1f};
  while (values.size() < 100000) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(random.bits()));
    if (std::isfinite(value)) values.push_back(value);
  }
  for (float value : values) trajectory.append_sampled(1, value, 0);
  trajectory.close_sampled(StopReason::kLength);
  Trajectory back = Trajectory::from_json(Json::parse(trajectory.to_json().dump()));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(back.log_probabilities()[i]), std::bit_cast<uint32_t>(values[i]));
  }
}

TEST(Trajectory, FloatsAreWrittenInTheirShortestForm) {
  Trajectory trajectory;
  trajectory.begin_sampled(0);
  trajectory.append_sampled(1, -0.1f, 0);
  trajectory.append_sampled(1, -0.6931472f, 0);
  trajectory.close_sampled(StopReason::kLength);
  EXPECT_NE(trajectory.to_json().dump().find("[-0.1,-0.6931472]"), std::string::npos);
}

TEST(Trajectory, EqualityComparesEveryPart) {
  Trajectory reference = two_turns();
  Json json = reference.to_json();
  auto differs = [&](const char* from, const char* to) {
    std::string text = json.dump();
    size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, std::string_view(from).size(), to);
    EXPECT_FALSE(Trajectory::from_json(Json::parse(text)) == reference) << from;
  };
  differs("[4,5]", "[4,9]");
  differs("-0.25", "-0.26");
  differs("[[3,1],[4,1]]", "[[3,2]]");
  differs("\"mixed\":[0,1]", "\"mixed\":[1,1]");
  differs("stop_token", "aborted");
  differs("\"start_time\":12", "\"start_time\":13");
  differs("observation", "injected");
}

TEST(Trajectory, CutsAfterTurns) {
  Trajectory whole = two_turns();
  EXPECT_EQ(whole.cut_after_turn(2), whole);
  Trajectory one = whole.cut_after_turn(1);
  EXPECT_EQ(one.size(), 6);  // the observation of turn 0 stays, the glue of turn 1 goes
  EXPECT_EQ(one.turn_count(), 1);
  Trajectory none = whole.cut_after_turn(0);
  EXPECT_EQ(none.size(), 3);
  EXPECT_EQ(none.turn_count(), 0);
  EXPECT_THROW(whole.cut_after_turn(3), Error);
  EXPECT_THROW(whole.cut_after_turn(-1), Error);
  whole.begin_sampled(2);
  EXPECT_THROW(whole.cut_after_turn(3), Error);
  EXPECT_EQ(whole.cut_after_turn(2), two_turns());
}

TEST(Trajectory, RandomCutsArePrefixesThatGrowBack) {
  RandomStream random(StreamKey{.run_seed = 3});
  for (int i = 0; i < 200; ++i) {
    Trajectory whole = testing::random_trajectory(random);
    int32_t previous = 0;
    for (int32_t turns = 0; turns < whole.turn_count(); ++turns) {
      Trajectory cut = whole.cut_after_turn(turns);
      expect_consistent(cut);
      ASSERT_EQ(cut.turn_count(), turns);
      ASSERT_LE(previous, cut.size());
      previous = cut.size();
      for (int32_t t = 0; t < cut.size(); ++t) {
        ASSERT_EQ(cut.tokens()[t], whole.tokens()[t]);
        ASSERT_EQ(cut.version(t), whole.version(t));
      }
      for (size_t s = 0; s < cut.spans().size(); ++s) ASSERT_EQ(cut.spans()[s], whole.spans()[s]);
      ASSERT_EQ(cut.cut_after_turn(turns), cut);
    }
  }
}

TEST(Trajectory, AnOpenSpanReadsBackOpen) {
  Trajectory trajectory = two_turns();
  trajectory.begin_sampled(2);
  trajectory.append_sampled(9, -2.0f, 6);
  Trajectory back = Trajectory::from_json(Json::parse(trajectory.to_json().dump()));
  EXPECT_EQ(back, trajectory);
  trajectory.append_sampled(10, -2.0f, 6);
  back.append_sampled(10, -2.0f, 6);
  back.close_sampled(StopReason::kStopToken, 40);
  trajectory.close_sampled(StopReason::kStopToken, 40);
  EXPECT_EQ(back, trajectory);
}

TEST(Trajectory, BadInputIsNamed) {
  EXPECT_EQ(error_of("[]"), "trajectory: expected an object, found array.");
  EXPECT_EQ(error_of("{}"), "trajectory.spans: the member is missing.");
  EXPECT_EQ(error_of(R"({"spans":[],"x":1})"), "trajectory.x: unknown member.");
  EXPECT_EQ(error_of(R"({"spans":[],"open":true})"), "trajectory.open: the last span is not a sampled one.");
  EXPECT_EQ(error_of(R"({"spans":[7]})"), "trajectory.spans[0]: expected an object, found integer.");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"prompt","turn":0,"turn":0,"tokens":[1]}]})"),
            "trajectory.spans[0].turn: the member occurs twice.");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"guess","turn":0,"tokens":[1]}]})"),
            "trajectory.spans[0].kind: unknown name \"guess\".");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"prompt","turn":-1,"tokens":[1]}]})"),
            "trajectory.spans[0].turn: expected an integer of 0 to 2147483647, found -1.");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"prompt","turn":0,"tokens":[1,4294967296]}]})"),
            "trajectory.spans[0].tokens: expected an integer of 0 to 2147483647, found 4294967296.");
  EXPECT_EQ(
      error_of(R"({"spans":[{"kind":"prompt","turn":0,"tokens":[18446744073709551615]}]})"),
      "trajectory.spans[0].tokens: expected an integer of 0 to 2147483647, found 18446744073709551615.");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"prompt","turn":0,"tokens":["1"]}]})"),
            "trajectory.spans[0].tokens: expected an integer of 0 to 2147483647, found string.");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"prompt","turn":0,"tokens":[]}]})"),
            "trajectory.spans[0].tokens: the span is empty.");
  EXPECT_EQ(error_of(R"({"spans":[{"kind":"prompt","turn":0,"tokens":[1],"stop_reason":"none"}]})"),
            "trajectory.spans[0].stop_reason: only a sampled span has this member.");
}

TEST(Trajectory, LengthsThatDifferAreNamed) {
  auto sampled = [](const char* rest) {
    return std::string(R"({"spans":[{"kind":"sampled","turn":0,"tokens":[1,2],"stop_reason":"length",)") +
           rest + "}]}";
  };
  const std::string place = "trajectory.spans[0].";
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1],"versions":[[0,2]])").c_str()),
            place + "log_probabilities: 1 values for 2 tokens.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,null],"versions":[[0,2]])").c_str()),
            place + "log_probabilities: null is no finite number.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,1e300],"versions":[[0,2]])").c_str()),
            place + "log_probabilities: 1e+300 is no finite number.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,-1],"versions":[[0,1]])").c_str()),
            place + "versions: 1 versions for 2 tokens.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,-1],"versions":[[0,3]])").c_str()),
            place + "versions[0]: expected an integer of 1 to 2, found 3.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,-1],"versions":[[-1,2]])").c_str()),
            place + "versions[0]: expected an integer of 0 to 9223372036854775807, found -1.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,-1],"versions":[0,0])").c_str()),
            place + "versions[0]: expected a pair of version and count.");
  EXPECT_EQ(error_of(sampled(R"("log_probabilities":[-1,-1],"versions":[[0,2]],"mixed":[1])").c_str()),
            place + "mixed: 1 values for 2 tokens.");
  EXPECT_EQ(error_of(sampled(R"("versions":[[0,2]])").c_str()),
            place + "log_probabilities: the member is missing.");
}

TEST(Trajectory, ChangedTextsNeverCrash) {
  RandomStream random(StreamKey{.run_seed = 5});
  for (int i = 0; i < 2000; ++i) {
    std::string text = two_turns().to_json().dump();
    for (uint64_t n = 1 + random.below(3); n > 0; --n) {
      text[random.below(text.size())] = "0123456789-[]{}\",:ak"[random.below(20)];
    }
    Result<Json> json = Json::try_parse(text);
    if (!json) continue;
    try {
      expect_consistent(Trajectory::from_json(*json));
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kInput) << text;
    }
  }
}

}  // namespace
}  // namespace stoker
