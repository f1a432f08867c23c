#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "frozen_lake".
struct FrozenLakeOptions {
  int min_size = 4;
  int max_size = 4;
  bool slippery = false;
  double ice = 0.8;
  int max_moves = 0;
  std::string moves = "text";
  bool instructions = true;
  int evaluation_size = 512;
  int64_t evaluation_seed = 20260101;
  std::string evaluation_file;
  double best_share = 1.0;

  template <typename V>
  void for_each_field(V& visit) {
    visit("min_size", min_size, "Fields a side of the smallest lakes.", between(3, 8));
    visit("max_size", max_size, "Fields a side of the largest lakes.", between(3, 8));
    visit("slippery", slippery,
          "Whether a move goes to either side of the wanted direction with probability 1/3 each.");
    visit("ice", ice, "Share of ice among the fields that are drawn; the rest are holes.", between(0.3, 1));
    visit("max_moves", max_moves, "Moves of a walk; 0: four times the fields a side.", between(0, 10000));
    visit("moves", moves, "How the model moves: a word of its text, or calls of the tool 'move'.",
          one_of({"text", "tool"}));
    visit("instructions", instructions, "Whether the first message explains letters and moves.");
    visit("evaluation_size", evaluation_size,
          "Held-out lakes; none occurs in training tasks or demonstrations.", between(1, 100000));
    visit("evaluation_seed", evaluation_seed, "Draws the held-out lakes, whatever the run's seed is.");
    visit("evaluation_file", evaluation_file,
          "JSON file {\"maps\": [{\"rows\": [...]}]} whose solvable lakes of the allowed sizes are the "
          "held-out "
          "ones; empty: they are drawn.");
    visit("best_share", best_share,
          "Moves of demonstrations that are the best ones; the rest are drawn at random.", between(0, 1));
  }
};

// FrozenLake in text, with the rules of Gymnasium's environment of that name: from the top left field to the
// bottom right one over ice with holes. Each observation is the lake with P where the model stands. The walk
// ends at the goal, in a hole, or when the moves are used up. What names no move costs a move and is told.
//
// Lakes are drawn as Gymnasium's generate_random_map draws them. One lake in four, chosen by the hash of its
// fields, is never trained on; held-out tasks are drawn from those. Tasks are a pure function of (seed,
// ordinal), demonstrations (walks of the best moves) of (seed, index). Row fields: rows.
// Reward and success: 1 when the goal was reached, else 0. Options that do not fit together throw
// Error(kInput) naming the key.
std::unique_ptr<EnvironmentKind> make_frozen_lake(const FrozenLakeOptions& options);

}  // namespace stoker
