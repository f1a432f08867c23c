#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace stoker {

// A move, numbered as in Gymnasium's FrozenLake.
enum class Direction { kLeft = 0, kDown = 1, kRight = 2, kUp = 3 };
inline constexpr std::array<Direction, 4> kDirections = {Direction::kLeft, Direction::kDown,
                                                         Direction::kRight, Direction::kUp};

// "left", "down", "right", "up".
const char* to_string(Direction direction);
std::optional<Direction> direction_from_string(std::string_view name);

// A square lake: rows of S (start, top left), F (ice), H (hole) and G (goal, bottom right). Fields are
// numbered row by row from 0. Holes and the goal end a walk.
class Lake {
 public:
  // Throws Error(kInput) with a clause when the rows are no square of 2 to 32 such letters with S and G in
  // their corners.
  explicit Lake(std::vector<std::string> rows);

  int size() const { return static_cast<int>(rows_.size()); }
  int fields() const { return size() * size(); }
  char at(int field) const {
    return rows_[static_cast<size_t>(field / size())][static_cast<size_t>(field % size())];
  }
  bool is_end(int field) const { return at(field) == 'H' || at(field) == 'G'; }
  const std::vector<std::string>& rows() const { return rows_; }

  // The field beside; the same one at the border.
  int beside(int field, Direction direction) const;
  // The rows, each on its line, with P where the walker stands.
  std::string drawn(int walker) const;
  // Rows joined by '\n': names the lake.
  std::string text() const;

 private:
  std::vector<std::string> rows_;
};

// A lake that Gymnasium's generate_random_map could give: each field is ice with probability `ice`, else a
// hole, drawn again until the goal can be reached.
Lake draw_lake(int size, double ice, RandomStream& random);

// Moves from each field to the goal without slipping; -1 where it cannot be reached, and for holes.
std::vector<int> moves_to_goal(const Lake& lake);

// Gymnasium's law on slippery ice: the direction that is gone, of the three that are not opposite to the
// wanted one, each with probability 1/3. `draw` is in [0, 1).
Direction slipped(Direction wanted, double draw);

// The best moves from each field [fields][...], empty for the ends and for fields from which the goal cannot
// be reached. On firm ice those of the shortest walks; on slippery ice those that reach the goal with the
// highest discounted probability (value iteration, discount 0.99).
std::vector<std::vector<Direction>> best_moves(const Lake& lake, bool slippery);

}  // namespace stoker
