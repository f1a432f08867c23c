#include "environment/frozen_lake/walk.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

Lake lake_of_row(const Json& row) {
  std::vector<std::string> rows;
  for (const Json& text : row.at("rows").as_array()) rows.push_back(text.as_string());
  return Lake(std::move(rows));
}

// The tool "move" of one walk.
class MoveTool final : public Tool {
 public:
  explicit MoveTool(std::optional<LakeWalk>& walk) : walk_(walk) {}

  const ToolSchema& schema() const override {
    static const ToolSchema schema = {
        .name = "move",
        .description = "Moves one field over the lake.",
        .parameters = Json::parse(R"({"type": "object", "properties": {"direction":
            {"type": "string", "enum": ["left", "down", "right", "up"]}},
            "required": ["direction"], "additionalProperties": false})")};
    return schema;
  }

  Task<Result<ToolResult>> call(const Json& arguments) override {
    if (walk_->done()) co_return ToolResult{"error: the walk is over", true};
    walk_->move(direction_from_string(arguments.at("direction").as_string()));
    co_return ToolResult{walk_->told(), false};
  }

 private:
  std::optional<LakeWalk>& walk_;
};

class LakeEnvironment final : public Environment {
 public:
  LakeEnvironment(bool slippery, int max_moves, bool by_tool, bool instructions)
      : slippery_(slippery),
        max_moves_(max_moves),
        by_tool_(by_tool),
        instructions_(instructions),
        tool_(walk_) {}

  Task<Result<Observation>> reset(const TaskRow& task, uint64_t seed) override {
    try {
      Lake lake = lake_of_row(task.fields);
      int moves = max_moves_ > 0 ? max_moves_ : default_max_moves(lake.size());
      walk_.emplace(std::move(lake), slippery_, moves, seed);
    } catch (const Error& error) {
      co_return Failure{FailureClass::kEnvironment, "bad_task",
                        fmt::format("{}: {}.", task.id, error.what())};
    }
    co_return Observation{.messages = {user_message(first_lake_message(*walk_, by_tool_, instructions_))}};
  }

  // A turn without calls: in text its move; with the tool a turn that moves nowhere, or the last word.
  Task<Result<Observation>> step(const Action& action) override {
    if (walk_->done()) co_return Observation{.messages = {}, .done = true};
    std::optional<Direction> direction = by_tool_ ? std::nullopt : last_direction(action.content);
    walk_->move(direction);
    std::string told = walk_->told();
    if (!direction && !walk_->done()) {
      const char* how = by_tool_ ? "Call the tool move." : "Say left, down, right or up.";
      told = fmt::format("{}\n{}", how, told);
    }
    co_return Observation{.messages = {user_message(std::move(told))}, .done = walk_->done()};
  }

  Task<> close() override { co_return; }
  std::vector<Tool*> tools() override { return by_tool_ ? std::vector<Tool*>{&tool_} : std::vector<Tool*>{}; }

 private:
  static Message user_message(std::string text) { return {.role = Role::kUser, .content = std::move(text)}; }

  bool slippery_;
  int max_moves_;
  bool by_tool_;
  bool instructions_;
  std::optional<LakeWalk> walk_;
  MoveTool tool_;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

void LakeWalk::move(std::optional<Direction> direction) {
  if (done()) return;
  int ordinal = moves_++;
  if (!direction) return;
  Direction gone = *direction;
  if (slippery_) {
    StreamKey key{.run_seed = seed_, .purpose = RandomPurpose::kEnvironment};
    gone = slipped(gone, random_uniform(key, static_cast<uint64_t>(ordinal)));
  }
  field_ = lake_.beside(field_, gone);
}

std::string LakeWalk::told() const {
  if (reached_goal()) return std::string(kGoalReached);
  if (lake_.is_end(field_)) return "You fell into a hole.";
  return done() ? "Your moves are used up." : lake_.drawn(field_);
}

std::optional<Direction> last_direction(std::string_view text) {
  std::optional<Direction> last;
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && is_letter(text[i])) {
      if (word.size() < 8) word.push_back(static_cast<char>(text[i] | 0x20));
      continue;
    }
    if (std::optional<Direction> direction = direction_from_string(word)) last = direction;
    word.clear();
  }
  return last;
}

std::unique_ptr<Environment> make_lake_environment(bool slippery, int max_moves, bool by_tool,
                                                   bool instructions) {
  return std::make_unique<LakeEnvironment>(slippery, max_moves, by_tool, instructions);
}

std::string first_lake_message(const LakeWalk& walk, bool by_tool, bool instructions) {
  std::string lake = walk.told();
  if (!instructions) return lake;
  return fmt::format(
      "Walk over the frozen lake to the goal. P is where you stand, F is ice, H is a hole, G is the goal, S "
      "is where "
      "you started. {}\n{}",
      by_tool ? "Call the tool move, once a turn."
              : "Answer each time with one move: left, down, right or up.",
      lake);
}

int default_max_moves(int size) { return 4 * size; }

}  // namespace stoker
