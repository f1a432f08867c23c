#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/testing/test_folder.h"
#include "cli/bench_async_result.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "model/model_directory.h"
#include "observe/metrics_server.h"
#include "rollout/event_log.h"
#include "trajectory/episode_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// The verbs as a user runs them, on a model of a few thousand parameters that was taught to answer "1" or "2"
// at random, and is paid for "1".
class CommandsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_folder_.emplace();
    shared_ = shared_folder_->path();
    std::string conversations, questions;
    for (int i = 0; i < 8; ++i) {
      std::string prompt = "Pick " + std::string(1, static_cast<char>('a' + i));
      conversations += R"({"messages": [{"role": "user", "content": ")" + prompt +
                       R"("}, {"role": "assistant", "content": ")" + (i % 2 == 0 ? "1" : "2") + "\"}]}\n";
      questions += R"({"prompt": ")" + prompt + R"(", "answer": 1})" + "\n";
    }
    write_file_atomic(shared_ / "conversations.jsonl", conversations);
    write_file_atomic(shared_ / "train.jsonl", questions);
    write_file_atomic(shared_ / "evaluate.jsonl",
                      "{\"prompt\": \"Pick x\", \"answer\": 1}\n{\"prompt\": \"Pick y\", \"answer\": 1}\n"
                      "{\"prompt\": \"Pick z\", \"answer\": 1}\n");
    write_file_atomic(shared_ / "run.toml", R"(
[agent]
kind = "conversation"
[environment]
kind = "question_answering"
[rollout]
mode = "sync"
steps = 4
groups_per_step = 2
group_size = 4
max_concurrent_episodes = 8
[rollout.limits]
max_turns = 2
max_turn_tokens = 12
[engine]
cache_megabytes = 16
[train]
evaluate_every = 2
[evaluate]
tasks = 3
samples = 2
[checkpoint]
every_steps = 1
keep_last = 2
[sft]
steps = 60
batch_size = 8
)");
    ASSERT_EQ(run_init({.directory = shared_ / "models" / "fresh",
                        .assignments = {"hidden_size=32", "num_hidden_layers=2", "num_attention_heads=2",
                                        "num_key_value_heads=1", "head_dim=16", "intermediate_size=48"}}),
              kExitDone);
    InterruptWatch interrupts;
    ASSERT_EQ(run_sft(arguments_in(shared_, "sft", "models/fresh", {"checkpoint.every_steps=0"}), interrupts),
              kExitDone);
  }
  static void TearDownTestSuite() { shared_folder_.reset(); }

  static RunFileArguments arguments_in(const fs::path& folder, const std::string& output,
                                       const std::string& model, std::vector<std::string> more = {}) {
    auto assign = [](const std::string& key, const fs::path& path) {
      return key + "=\"" + path.string() + "\"";
    };
    RunFileArguments result{
        .run_file = shared_ / "run.toml",
        .assignments = {assign("model.path", shared_ / model), assign("output", folder / output), "threads=2",
                        assign("sft.conversations", shared_ / "conversations.jsonl"),
                        assign("environment.question_answering.train_file", shared_ / "train.jsonl"),
                        assign("environment.question_answering.evaluation_file", shared_ / "evaluate.jsonl")},
        .quiet = true};
    result.assignments.insert(result.assignments.end(), more.begin(), more.end());
    return result;
  }
  RunFileArguments arguments(const std::string& output, std::vector<std::string> more = {}) const {
    return arguments_in(root_, output, "sft/model", std::move(more));
  }
  uint64_t digest(const std::string& run) const { return load_model_weights(root_ / run / "model").digest(); }
  uint64_t start_digest() const { return load_model_weights(shared_ / "sft/model").digest(); }

  inline static std::optional<TestFolder> shared_folder_;
  inline static fs::path shared_;
  const TestFolder test_folder_;
  const fs::path& root_ = test_folder_.path();
  InterruptWatch interrupts_;
};

TEST_F(CommandsTest, InitRefusesToReplaceAndNamesBadSizes) {
  EXPECT_THROW(run_init({.directory = shared_ / "models" / "fresh"}), Error);
  EXPECT_THROW(run_init({.directory = root_ / "other", .assignments = {"size=3M"}}), Error);
  EXPECT_THROW(run_init({.directory = root_ / "other",
                         .assignments = {"num_attention_heads=3", "num_key_value_heads=2"}}),
               Error);
  EXPECT_FALSE(fs::exists(root_ / "other"));
}

TEST_F(CommandsTest, SftChangesTheModelAndIsTheSameTwice) {
  ASSERT_EQ(run_sft(arguments("a", {"sft.steps=3"}), interrupts_), kExitDone);
  ASSERT_EQ(run_sft(arguments("b", {"sft.steps=3"}), interrupts_), kExitDone);
  EXPECT_EQ(digest("a"), digest("b"));
  EXPECT_NE(digest("a"), start_digest());
  EXPECT_TRUE(fs::exists(root_ / "a/metrics.jsonl"));
}

TEST_F(CommandsTest, TrainLeavesWhatItPromisesAndItsEventLogReplays) {
  RunFileArguments with_figures = arguments("rl");
  with_figures.json = root_ / "figures.json";
  ASSERT_EQ(run_train(with_figures, interrupts_), kExitDone);

  std::vector<std::string> names;
  Json figures = Json::parse(read_file(root_ / "figures.json"));
  for (const Json& figure : figures.as_array()) {
    names.push_back(figure.at("name").as_string());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"success_before", "success_before_sampled", "success_after",
                                             "success_after_sampled"}));
  int64_t train = 0, evaluate = 0;
  for_each_episode(root_ / "rl/episodes", [&](const EpisodeRecord& record, const EpisodePlace&) {
    ++(record.purpose == "train" ? train : evaluate);
    EXPECT_GT(record.trajectory.sampled_count(), 0);
    return true;
  });
  EXPECT_EQ(train, 4 * 2 * 4);
  EXPECT_EQ(evaluate, 3 * 2 * 2 * 3);  // steps 0, 2 and 4, two temperatures, three tasks, two samples
  std::vector<Json> events;
  for_each_line(root_ / "rl/events.jsonl", [&](std::string_view line, size_t, bool) {
    events.push_back(Json::parse(line));
    return true;
  });
  ReplayReport replay = replay_event_log(events);
  EXPECT_FALSE(replay.difference.has_value()) << *replay.difference;
  EXPECT_GT(replay.decisions, 32);
  EXPECT_TRUE(fs::exists(root_ / "rl/checkpoints/best/model/model.safetensors"));
  EXPECT_EQ(run_episodes({.run_folder = root_ / "rl", .id = "0.0", .tokens = true}), kExitDone);
  EXPECT_THROW(run_episodes({.run_folder = root_ / "rl", .id = "999.0"}), Error);
}

TEST_F(CommandsTest, OneEngineSeveralAndOnesInOtherProcessesGiveTheSameBits) {
  const std::vector<std::string> brief = {"train.evaluate_every=0", "train.evaluate_at_start=false",
                                          "train.evaluate_at_end=false"};
  ASSERT_EQ(run_train(arguments("one", brief), interrupts_), kExitDone);
  const auto train = [&](const std::string& output, int replicas, int children) {
    RunFileArguments given = arguments(output, brief);
    given.assignments.push_back("engine.replicas=" + std::to_string(replicas));
    given.assignments.push_back("engine.child_processes=" + std::to_string(children));
    given.program = STOKER_PROGRAM;
    ASSERT_EQ(run_train(given, interrupts_), kExitDone);
    EXPECT_EQ(digest(output), digest("one"));
    EXPECT_NE(read_file(root_ / output / "engine_events.jsonl").find("\"outcome\":\"committed\""),
              std::string::npos);
    EXPECT_NE(read_file(root_ / output / "metrics.jsonl").find("engine/publications/committed"),
              std::string::npos);
    EXPECT_FALSE(fs::exists(root_ / output / "engine_weights"));
  };
  train("child", 1, 1);
  train("mixed", 2, 1);
  EXPECT_NE(digest("one"), start_digest());
}

// Rewards from a script that kills the engine's process at two of its calls, while episodes are in
// generation.
TEST_F(CommandsTest, AKilledEngineCostsARunNothing) {
  write_file_atomic(root_ / "reward.sh", R"(
read -r line
echo '{"id":1,"result":{"protocol":1,"rewards":[{"name":"none"}]}}'
number=1
while read -r line; do
  number=$((number + 1))
  case " $1 " in *" $number "*)
    for file in /proc/[0-9]*/stat; do
      read -r process name state parent rest < $file || continue
      [ "$parent" = "$PPID" ] || continue
      tr '\000' ' ' < /proc/$process/cmdline | grep -q 'engine serve' && kill -9 $process
    done 2>/dev/null ;;
  esac
  case $line in
    *'"ping"'*) echo "{\"id\":$number,\"result\":{\"episodes\":0,\"stuck\":0}}" ;;
    *) echo "{\"id\":$number,\"result\":{\"reward\":0}}" ;;
  esac
done)");
  const auto train = [&](const std::string& output, const std::string& kills, int children) {
    RunFileArguments given =
        arguments(output, {"train.evaluate_every=0", "train.evaluate_at_start=false",
                           "train.evaluate_at_end=false", "rollout.limits.reward_timeout_seconds=inf",
                           "engine.child_processes=" + std::to_string(children)});
    given.assignments.push_back(R"(reward.command.command=["/bin/sh", ")" + (root_ / "reward.sh").string() +
                                R"(", ")" + kills + R"("])");
    given.program = STOKER_PROGRAM;
    ASSERT_EQ(run_train(given, interrupts_), kExitDone);
  };
  train("calm", "none", 0);
  train("killed", "4 11", 1);
  EXPECT_EQ(digest("killed"), digest("calm"));
  EXPECT_NE(digest("calm"), start_digest());
  const std::string events = read_file(root_ / "killed/engine_events.jsonl");
  EXPECT_NE(events.find("\"event\":\"lost\""), std::string::npos) << events;
}

// The engine's process never says a word, and interrupts the run as Ctrl-C does.
TEST_F(CommandsTest, ARunCanBeStoppedWhileItsEngineHangsInItsStart) {
  write_file_atomic(root_ / "engine.sh", "#!/bin/sh\nkill -INT $PPID\nexec cat > /dev/null\n");
  fs::permissions(root_ / "engine.sh", fs::perms::owner_all);
  RunFileArguments given = arguments("stopped", {"engine.child_processes=1"});
  given.program = root_ / "engine.sh";
  EXPECT_EQ(run_train(given, interrupts_), kExitInterrupted);
  EXPECT_FALSE(fs::exists(root_ / "stopped/engine_weights"));
}

TEST_F(CommandsTest, WhatAKilledRunLeftOfItsEnginesIsRemoved) {
  const std::vector<std::string> brief = {"rollout.steps=1", "train.evaluate_every=0",
                                          "train.evaluate_at_start=false", "train.evaluate_at_end=false"};
  ASSERT_EQ(run_train(arguments("left", brief), interrupts_), kExitDone);
  write_file_atomic(root_ / "left/notes.txt", "mine");
  fs::create_directory(root_ / "left/engine_weights");
  write_file_atomic(root_ / "left/engine_weights/1_of_version_0.weights.part", "half");
  RunFileArguments again = arguments("left", brief);
  again.resume = true;
  ASSERT_EQ(run_train(again, interrupts_), kExitDone);
  EXPECT_FALSE(fs::exists(root_ / "left/engine_weights"));
  EXPECT_EQ(read_file(root_ / "left/notes.txt"), "mine");
}

TEST_F(CommandsTest, SyncAndAsyncWithNothingAheadGiveTheSameBits) {
  ASSERT_EQ(run_train(arguments("sync"), interrupts_), kExitDone);
  ASSERT_EQ(
      run_train(arguments("async", {"rollout.mode=async", "rollout.max_ahead=0", "threads=1"}), interrupts_),
      kExitDone);
  EXPECT_EQ(digest("sync"), digest("async"));
  EXPECT_NE(digest("sync"), start_digest());
}

TEST_F(CommandsTest, EvaluationsAfterTheRunSayWhatThoseBesideItSay) {
  ASSERT_EQ(run_train(arguments("beside"), interrupts_), kExitDone);
  ASSERT_EQ(run_train(arguments("after", {"train.evaluate_after_run=true"}), interrupts_), kExitDone);
  const auto evaluations = [&](const std::string& run) {
    std::map<int64_t, MetricMap> found;
    for (const MetricsLine& line : read_metrics(root_ / run / "metrics.jsonl")) {
      if (line.metrics.contains("eval/greedy/success")) found[line.step] = line.metrics;
    }
    return found;
  };
  EXPECT_EQ(evaluations("beside").size(), 3u);  // steps 0, 2 and 4
  EXPECT_EQ(evaluations("beside"), evaluations("after"));
  EXPECT_EQ(digest("beside"), digest("after"));
  EXPECT_FALSE(fs::exists(root_ / "after/checkpoints/best"));
}

TEST_F(CommandsTest, AResumedRunEndsInTheBitsOfOneThatNeverStopped) {
  ASSERT_EQ(run_train(arguments("whole"), interrupts_), kExitDone);
  // As if it had been killed after the checkpoint of step 3.
  ASSERT_EQ(run_train(arguments("cut"), interrupts_), kExitDone);
  fs::remove_all(root_ / "cut/checkpoints/step_4");
  RunFileArguments rest = arguments("cut");
  rest.resume = true;
  ASSERT_EQ(run_train(rest, interrupts_), kExitDone);
  EXPECT_EQ(digest("whole"), digest("cut"));
  std::map<std::string, int> times;  // no episode is listed twice
  for_each_episode(root_ / "cut/episodes", [&](const EpisodeRecord& record, const EpisodePlace&) {
    ++times[record.purpose + " " + record.id.to_string()];
    return true;
  });
  EXPECT_EQ(times.size(), 4u * 2 * 4 + 3 * 2 * 3 * 2);
  for (const auto& [name, count] : times) EXPECT_EQ(count, 1) << name;
  EXPECT_EQ(run_replay(root_ / "cut"), kExitDone);
}

// The evaluation of step 2 ends after the checkpoint of step 2 is saved, and may after that of step 3.
TEST_F(CommandsTest, AnEvaluationThatEndedIsNotToldAsCutOffOnResume) {
  ASSERT_EQ(run_train(arguments("run"), interrupts_), kExitDone);
  const fs::path newest = root_ / "run/checkpoints/step_4";
  Json state = Json::parse(read_file(newest / "state.json"));
  state.set("unfinished_evaluations", Json::array({Json(2), Json(4)}));
  const std::string text = state.dump();
  write_file_atomic(newest / "state.json", text);
  Json marker = Json::parse(read_file(newest / "complete"));
  Json files = marker.at("files");
  files.set("state.json", text.size());
  marker.set("files", files);
  write_file_atomic(newest / "complete", marker.dump());

  RunFileArguments rest = arguments("run", {"rollout.steps=5"});
  rest.resume = true;
  testing::internal::CaptureStderr();
  ASSERT_EQ(run_train(rest, interrupts_), kExitDone);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(told.find("cut off"), std::string::npos) << told;
  EXPECT_EQ(told.find("no checkpoint"), std::string::npos) << told;

  // One of which the metrics know nothing was cut off.
  std::string metrics = read_file(root_ / "run/metrics.jsonl");
  for (size_t at = metrics.find("eval/"); at != std::string::npos; at = metrics.find("eval/", at)) {
    metrics.replace(at, 5, "else/");
  }
  write_file_atomic(root_ / "run/metrics.jsonl", metrics);
  write_file_atomic(newest / "state.json", text);
  fs::remove_all(root_ / "run/checkpoints/step_5");
  testing::internal::CaptureStderr();
  ASSERT_EQ(run_train(rest, interrupts_), kExitDone);
  const std::string then = testing::internal::GetCapturedStderr();
  EXPECT_NE(then.find("The evaluation of step 2 was cut off"), std::string::npos) << then;
}

// A run that was killed before its first checkpoint begins again, with no episode twice.
TEST_F(CommandsTest, ARunWithoutACheckpointBeginsAgainOnResume) {
  ASSERT_EQ(run_train(arguments("run", {"rollout.steps=1"}), interrupts_), kExitDone);
  fs::remove_all(root_ / "run/checkpoints");
  RunFileArguments again = arguments("run", {"rollout.steps=1"});
  again.resume = true;
  ASSERT_EQ(run_train(again, interrupts_), kExitDone);
  std::map<std::string, int> times;
  for_each_episode(root_ / "run/episodes", [&](const EpisodeRecord& record, const EpisodePlace&) {
    ++times[record.purpose + " " + record.id.to_string()];
    return true;
  });
  EXPECT_GE(times.size(), 8u);
  for (const auto& [name, count] : times) EXPECT_EQ(count, 1) << name;
}

// Cut by a kill or a full disk: `--resume` keeps the whole lines of every file.
TEST_F(CommandsTest, ResumePassesOverLinesThatWereCut) {
  ASSERT_EQ(run_train(arguments("run"), interrupts_), kExitDone);
  for (const char* name : {"metrics.jsonl", "events.jsonl", "episodes/000000.jsonl"}) {
    write_file_atomic(root_ / "run" / name, read_file(root_ / "run" / name) + "{\"step\": 4, \"lo\n");
  }
  RunFileArguments rest = arguments("run", {"rollout.steps=5"});
  rest.resume = true;
  ASSERT_EQ(run_train(rest, interrupts_), kExitDone);
  EXPECT_EQ(run_replay(root_ / "run"), kExitDone);
  int64_t train = 0;
  for_each_episode(root_ / "run/episodes", [&](const EpisodeRecord& record, const EpisodePlace&) {
    train += record.purpose == "train" ? 1 : 0;
    return true;
  });
  EXPECT_EQ(train, 5 * 2 * 4);

  write_file_atomic(root_ / "run/metrics.jsonl",
                    "{\"step\": 4, \"lo\n" + read_file(root_ / "run/metrics.jsonl"));
  EXPECT_THROW(run_train(rest, interrupts_), Error);
}

TEST_F(CommandsTest, AModelPathThatIsNoneIsNamed) {
  const auto refusal = [&](const fs::path& path) {
    try {
      run_train(arguments("rl", {"model.path=\"" + path.string() + "\""}), interrupts_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
      return std::string(error.what());
    }
    return std::string();
  };
  fs::create_directories(root_ / "empty");
  EXPECT_NE(refusal(root_ / "nowhere").find("(model.path) does not exist"), std::string::npos);
  EXPECT_NE(refusal("no/where").find("does not exist in " + fs::current_path().string()), std::string::npos);
  EXPECT_NE(refusal(root_ / "empty").find("no model directory"), std::string::npos);
  EXPECT_NE(refusal(root_ / "nowhere").find("stoker init DIRECTORY"), std::string::npos);
  EXPECT_NE(refusal(shared_ / "run.toml").find("neither a model directory nor a GGUF file"),
            std::string::npos);
  EXPECT_NE(refusal(shared_ / "sft").find("its model is " + (shared_ / "sft/model").string()),
            std::string::npos);
  for (const auto& verb : std::vector<std::function<int()>>{
           [&] { return run_generate({.model = root_ / "nowhere", .prompt = "x"}, interrupts_); },
           [&] { return run_score({.model = root_ / "nowhere", .input = root_ / "nowhere"}, interrupts_); },
           [&] { return run_doctor(root_ / "nowhere"); }}) {
    try {
      verb();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("(MODEL) does not exist"), std::string::npos) << error.what();
    }
  }
}

TEST_F(CommandsTest, EvalRefusesAMissingModelBeforeItMakesAFolder) {
  RunFileArguments missing = arguments("eval", {"model.path=\"" + (root_ / "nowhere").string() + "\""});
  EXPECT_THROW(run_eval(missing, interrupts_), Error);
  EXPECT_FALSE(fs::exists(root_ / "eval"));
  EXPECT_EQ(run_eval(arguments("eval"), interrupts_), kExitDone);
}

TEST_F(CommandsTest, OverwriteNeverDeletesTheModelThatTheRunReads) {
  RunFileArguments first = arguments("run", {"rollout.steps=1"});
  ASSERT_EQ(run_train(first, interrupts_), kExitDone);
  RunFileArguments again = arguments("run", {"model.path=\"" + (root_ / "run/model").string() + "\""});
  again.overwrite = true;
  EXPECT_THROW(run_train(again, interrupts_), Error);
  EXPECT_TRUE(fs::exists(root_ / "run/model/model.safetensors"));
}

TEST_F(CommandsTest, AWrongSettingIsRefusedBeforeTheOldRunIsReplaced) {
  ASSERT_EQ(run_train(arguments("run", {"rollout.steps=1"}), interrupts_), kExitDone);
  for (const char* wrong : {"rollout.reward_weights=[1.0, 1.0]", "rollout.sampling.temperature=0.00001",
                            "evaluate.temperatures=[1.0, 1.0]", "evaluate.top_p=0.0", "engine.max_batch=0"}) {
    RunFileArguments again = arguments("run", {wrong});
    again.overwrite = true;
    EXPECT_THROW(run_train(again, interrupts_), Error) << wrong;
    EXPECT_TRUE(fs::exists(root_ / "run/model/model.safetensors")) << wrong;
  }
}

TEST_F(CommandsTest, AMetricsPortThatIsTakenIsToldBeforeAFolderIsMade) {
  const MetricsServer other(0);
  try {
    run_train(arguments("run", {"metrics_port=" + std::to_string(other.port())}), interrupts_);
    FAIL() << "the port was had twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(other.port())), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(fs::exists(root_ / "run"));
}

TEST_F(CommandsTest, GenerateAnswersAPrompt) {
  GenerateArguments one{.model = shared_ / "models" / "fresh", .prompt = "What is 2+2?", .max_tokens = 4};
  EXPECT_EQ(run_generate(one, interrupts_), kExitDone);
  one.max_tokens = 0;
  EXPECT_THROW(run_generate(one, interrupts_), Error);
}

// What the verb prints: the objects of its lines.
std::vector<Json> printed_rows(const std::function<int()>& verb) {
  testing::internal::CaptureStdout();
  const int status = verb();
  std::istringstream lines(testing::internal::GetCapturedStdout());
  EXPECT_EQ(status, kExitDone);
  std::vector<Json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

// Each token of a batch's answers has the log-probability that score gives it, in both compute types.
TEST_F(CommandsTest, ScoreGivesTheLogProbabilitiesOfABatch) {
  write_file_atomic(root_ / "prompts.jsonl",
                    "{\"prompt\": \"Pick a\"}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"
                    "{\"tokens\": [3, 4, 5]}\n");
  for (const char* type : {"float32", "bfloat16"}) {
    const GenerateArguments batch{.model = shared_ / "models" / "fresh",
                                  .compute_type = type,
                                  .temperature = 0.7,
                                  .forbidden_tokens = {6},
                                  .top_log_probabilities = 2,
                                  .batch = root_ / "prompts.jsonl",
                                  .max_tokens = 5,
                                  .samples = 2};
    const std::vector<Json> answers = printed_rows([&] { return run_generate(batch, interrupts_); });
    ASSERT_EQ(answers.size(), 6u);
    std::vector<Json> ids = {Json(3), Json(4), Json(5)};
    for (const Json& id : answers[5].at("ids").as_array()) ids.push_back(id);
    EXPECT_EQ(answers[5].at("top_log_probabilities").as_array().at(0).as_array().size(), 2u);
    write_file_atomic(root_ / "tokens.jsonl", Json::object({{"tokens", Json::array(ids)}}).dump() +
                                                  "\n{\"text\": \"Pick b\"}\n" +
                                                  R"({"prompt": "Pick", "completion": " b"})" + "\n");
    const ScoreArguments score{.model = shared_ / "models" / "fresh",
                               .input = root_ / "tokens.jsonl",
                               .compute_type = type,
                               .temperature = 0.7};
    const std::vector<Json> scores = printed_rows([&] { return run_score(score, interrupts_); });
    ASSERT_EQ(scores.size(), 3u);
    const std::vector<Json>& all = scores[0].at("log_probabilities").as_array();
    const std::vector<Json>& sampled = answers[5].at("log_probabilities").as_array();
    ASSERT_EQ(all.size(), 2 + sampled.size());
    for (size_t i = 0; i < sampled.size(); ++i) EXPECT_EQ(all[2 + i].as_double(), sampled[i].as_double());
    EXPECT_LT(scores[2].at("tokens").as_int(), scores[1].at("tokens").as_int());
  }
}

TEST_F(CommandsTest, ScoreAndBatchNameWhatIsWrongWithARow) {
  ScoreArguments score{.model = shared_ / "models" / "fresh", .input = root_ / "rows.jsonl"};
  GenerateArguments batch{.model = shared_ / "models" / "fresh", .batch = root_ / "rows.jsonl"};
  for (const char* row : {"3", "{", "{}", "{\"text\": 3}", "{\"tokens\": [-1]}", "{\"tokens\": 1}",
                          "{\"x\": 1}", "{\"prompt\": [], \"completion\": \"\"}"}) {
    write_file_atomic(root_ / "rows.jsonl", std::string("\n") + row + "\n");
    for (const bool scores : {true, false}) {
      try {
        scores ? run_score(score, interrupts_) : run_generate(batch, interrupts_);
        ADD_FAILURE() << row;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
      }
    }
  }
  batch.logit_biases = {"7"};
  EXPECT_THROW(run_generate(batch, interrupts_), Error);
}

}  // namespace
}  // namespace stoker
