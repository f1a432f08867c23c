#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "environment/environment.h"
#include "environment/frozen_lake/lake.h"

namespace stoker {

// One walk over a lake: the state behind an episode and its demonstrations.
class LakeWalk {
 public:
  // `seed` draws the slips: the n-th move slips the same whatever the moves before it.
  LakeWalk(Lake lake, bool slippery, int max_moves, uint64_t seed)
      : lake_(std::move(lake)), slippery_(slippery), max_moves_(max_moves), seed_(seed) {}

  const Lake& lake() const { return lake_; }
  int field() const { return field_; }
  bool done() const { return lake_.is_end(field_) || moves_ >= max_moves_; }
  bool reached_goal() const { return lake_.at(field_) == 'G'; }
  // A move; nothing for what names none. Does nothing when the walk is done.
  void move(std::optional<Direction> direction);
  // What the model is told now: the lake, or how the walk ended.
  std::string told() const;

 private:
  Lake lake_;
  bool slippery_;
  int max_moves_;
  uint64_t seed_;
  int field_ = 0;
  int moves_ = 0;
};

// What the model is told at the goal; the reward looks for it.
inline constexpr std::string_view kGoalReached = "You reached the goal.";

// The move that a text names: the last of the words left, down, right, up in it, large or small letters.
std::optional<Direction> last_direction(std::string_view text);

// The environment of a walk. `by_tool`: moves are calls of the tool "move"; else each turn names one.
// `instructions` stand before the first lake; empty: none.
std::unique_ptr<Environment> make_lake_environment(bool slippery, int max_moves, bool by_tool,
                                                   bool instructions);

// The first message about a lake.
std::string first_lake_message(const LakeWalk& walk, bool by_tool, bool instructions);

// Moves of a walk when the options leave it open.
int default_max_moves(int size);

}  // namespace stoker
