#include "environment/frozen_lake/frozen_lake.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "environment/frozen_lake/walk.h"

namespace stoker {
namespace {

constexpr const char* kFrozenLake = "environment 'frozen_lake'";
constexpr uint64_t kHeldOutOf = 4;  // one lake in so many is never trained on
constexpr int kMostRedraws = 20000;

enum class LakeUse : uint32_t { kTraining, kDemonstration, kEvaluation };

RandomStream lake_stream(LakeUse use, uint64_t seed, uint64_t index) {
  return RandomStream(StreamKey{.run_seed = seed,
                                .purpose = RandomPurpose::kData,
                                .task_ordinal = index,
                                .sample = static_cast<uint32_t>(use)});
}

// The lakes of one set of options. Immutable, shared by what is made of it.
class Lakes {
 public:
  explicit Lakes(const FrozenLakeOptions& options) : options_(options) {
    if (options.min_size > options.max_size) {
      throw input_error(fmt::format("{}: min_size is {}, above max_size, {}.", kFrozenLake, options.min_size,
                                    options.max_size));
    }
    if (options.evaluation_file.empty()) {
      draw_held_out();
    } else {
      read_held_out();
    }
  }

  const std::vector<Lake>& held_out() const { return held_out_; }
  bool may_train(const std::string& text) const {
    return !is_reserved(text) && !held_out_texts_.contains(text);
  }

  // The next lake of the stream that may be trained on.
  Lake draw(RandomStream& random) const {
    for (int i = 0; i < kMostRedraws; ++i) {
      Lake lake = draw_any(random);
      if (may_train(lake.text())) return lake;
    }
    throw internal_error("FrozenLake found no lake outside the held-out ones.");
  }

 private:
  static bool is_reserved(const std::string& text) { return hash64(text) % kHeldOutOf == 0; }

  Lake draw_any(RandomStream& random) const {
    auto sizes = static_cast<uint64_t>(options_.max_size - options_.min_size + 1);
    return draw_lake(options_.min_size + static_cast<int>(random.below(sizes)), options_.ice, random);
  }

  void draw_held_out() {
    RandomStream random =
        lake_stream(LakeUse::kEvaluation, static_cast<uint64_t>(options_.evaluation_seed), 0);
    int repeats = 0;
    while (static_cast<int>(held_out_.size()) < options_.evaluation_size) {
      Lake lake = draw_any(random);
      std::string text = lake.text();
      if (is_reserved(text) && held_out_texts_.insert(text).second) {
        held_out_.push_back(std::move(lake));
        repeats = 0;
      } else if (++repeats == kMostRedraws) {
        throw input_error(fmt::format(
            "{}: lakes of these sizes give only {} different held-out ones, fewer than evaluation_size; "
            "lower evaluation_size or allow larger lakes.",
            kFrozenLake, held_out_.size()));
      }
    }
  }

  void read_held_out() {
    Json file = Json::parse(read_file(options_.evaluation_file), options_.evaluation_file);
    const Json* maps = file.find("maps");
    if (maps == nullptr || !maps->is_array()) {
      throw input_error(fmt::format("{}: {} has no list \"maps\".", kFrozenLake, options_.evaluation_file));
    }
    for (size_t i = 0; i < maps->as_array().size(); ++i) read_map(maps->as_array()[i], i);
    if (held_out_.empty()) {
      throw input_error(fmt::format("{}: no map of {} is solvable and of an allowed size.", kFrozenLake,
                                    options_.evaluation_file));
    }
  }

  void read_map(const Json& map, size_t index) {
    try {
      std::vector<std::string> rows;
      for (const Json& row : map.at("rows").as_array()) rows.push_back(row.as_string());
      Lake lake(std::move(rows));
      bool fits = lake.size() >= options_.min_size && lake.size() <= options_.max_size;
      if (!fits || moves_to_goal(lake)[0] < 0) return;
      if (held_out_texts_.insert(lake.text()).second) held_out_.push_back(std::move(lake));
    } catch (const Error& error) {
      throw input_error(
          fmt::format("{}: map {} of {}: {}.", kFrozenLake, index, options_.evaluation_file, error.what()));
    }
  }

  FrozenLakeOptions options_;
  std::vector<Lake> held_out_;
  std::set<std::string> held_out_texts_;
};

TaskRow lake_row(std::string id, const Lake& lake) {
  Json rows = Json::array();
  for (const std::string& row : lake.rows()) rows.as_array().push_back(row);
  return {std::move(id), Json::object({{"rows", std::move(rows)}})};
}

class LakeTrainingTasks final : public TaskSource {
 public:
  LakeTrainingTasks(std::shared_ptr<const Lakes> lakes, uint64_t seed)
      : lakes_(std::move(lakes)), seed_(seed) {}

  TaskRow task(uint64_t ordinal) const override {
    RandomStream random = lake_stream(LakeUse::kTraining, seed_, ordinal);
    return lake_row(fmt::format("train/{}", ordinal), lakes_->draw(random));
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }

 private:
  std::shared_ptr<const Lakes> lakes_;
  uint64_t seed_;
};

class LakeEvaluationTasks final : public TaskSource {
 public:
  explicit LakeEvaluationTasks(std::shared_ptr<const Lakes> lakes) : lakes_(std::move(lakes)) {}

  TaskRow task(uint64_t ordinal) const override {
    uint64_t index = ordinal % lakes_->held_out().size();
    return lake_row(fmt::format("evaluation/{}", index), lakes_->held_out()[index]);
  }
  std::optional<uint64_t> epoch_size() const override { return lakes_->held_out().size(); }

 private:
  std::shared_ptr<const Lakes> lakes_;
};

// 1 when the environment said that the goal was reached; what the model says does not count.
class GoalReward final : public Reward {
 public:
  std::string name() const override { return "goal"; }

  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    bool reached = std::any_of(episode.messages.begin(), episode.messages.end(), [](const Message& message) {
      return message.role != Role::kAssistant && message.content == kGoalReached;
    });
    co_return RewardResult{.reward = reached ? 1.0 : 0.0, .success = reached};
  }
};

class FrozenLakeKind final : public EnvironmentKind {
 public:
  explicit FrozenLakeKind(FrozenLakeOptions options)
      : options_(std::move(options)), lakes_(std::make_shared<Lakes>(options_)) {}

  std::unique_ptr<Environment> make(Pool&) const override {
    return make_lake_environment(options_.slippery, options_.max_moves, by_tool(), options_.instructions);
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override {
    return std::make_unique<LakeTrainingTasks>(lakes_, seed);
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    return std::make_unique<LakeEvaluationTasks>(lakes_);
  }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(std::make_unique<GoalReward>());
    return rewards;
  }

  std::optional<Demonstration> demonstration(uint64_t index, uint64_t seed) const override {
    RandomStream random = lake_stream(LakeUse::kDemonstration, seed, index);
    Lake lake = lakes_->draw(random);
    std::vector<std::vector<Direction>> best = best_moves(lake, options_.slippery);
    int most = options_.max_moves > 0 ? options_.max_moves : default_max_moves(lake.size());
    LakeWalk walk(std::move(lake), options_.slippery, most, random.bits());
    Demonstration result;
    tell(result.messages, Role::kUser, first_lake_message(walk, by_tool(), options_.instructions));
    while (!walk.done()) {
      const std::vector<Direction>& good = best[static_cast<size_t>(walk.field())];
      bool is_best = random.uniform() < options_.best_share && !good.empty();
      Direction direction =
          is_best ? good[random.below(good.size())] : kDirections[random.below(kDirections.size())];
      walk.move(direction);
      add_move(result.messages, direction);
      if (by_tool() || !walk.done())
        tell(result.messages, by_tool() ? Role::kTool : Role::kUser, walk.told());
    }
    if (by_tool()) tell(result.messages, Role::kAssistant, "Done.");
    return result;
  }

 private:
  bool by_tool() const { return options_.moves == "tool"; }

  static void tell(std::vector<Message>& messages, Role role, std::string text) {
    Message& message = messages.emplace_back();
    message.role = role;
    message.content = std::move(text);
    if (role == Role::kTool) message.name = "move";
  }

  void add_move(std::vector<Message>& messages, Direction direction) const {
    if (!by_tool()) return tell(messages, Role::kAssistant, to_string(direction));
    ToolCall call{.name = "move", .arguments = Json::object({{"direction", to_string(direction)}})};
    messages.push_back({.role = Role::kAssistant, .tool_calls = {std::move(call)}});
  }

  FrozenLakeOptions options_;
  std::shared_ptr<const Lakes> lakes_;
};

}  // namespace

std::unique_ptr<EnvironmentKind> make_frozen_lake(const FrozenLakeOptions& options) {
  return std::make_unique<FrozenLakeKind>(options);
}

}  // namespace stoker
