#include "environment/frozen_lake/lake.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

constexpr double kDiscount = 0.99;
constexpr int kMostSweeps = 10000;
constexpr double kSettled = 1e-12;  // sweeps end when no value moves by more
constexpr double kEqual = 1e-9;     // moves whose values differ by less are equally good

Direction turned(Direction direction, int by) {
  return static_cast<Direction>((static_cast<int>(direction) + by + 4) % 4);
}

// The probability-weighted value of a move on slippery ice.
double slippery_value(const Lake& lake, const std::vector<double>& values, int field, Direction wanted) {
  double value = 0;
  for (int by : {-1, 0, 1}) {
    int next = lake.beside(field, turned(wanted, by));
    value += (lake.at(next) == 'G' ? 1.0 : kDiscount * values[static_cast<size_t>(next)]) / 3;
  }
  return value;
}

std::vector<double> slippery_values(const Lake& lake) {
  std::vector<double> values(static_cast<size_t>(lake.fields()), 0);
  double change = 1;
  for (int sweep = 0; sweep < kMostSweeps && change > kSettled; ++sweep) {
    change = 0;
    for (int field = 0; field < lake.fields(); ++field) {
      if (lake.is_end(field)) continue;
      double best = 0;
      for (Direction direction : kDirections)
        best = std::max(best, slippery_value(lake, values, field, direction));
      change = std::max(change, best - values[static_cast<size_t>(field)]);
      values[static_cast<size_t>(field)] = best;
    }
  }
  return values;
}

}  // namespace

const char* to_string(Direction direction) {
  constexpr const char* kNames[] = {"left", "down", "right", "up"};
  return kNames[static_cast<int>(direction)];
}

std::optional<Direction> direction_from_string(std::string_view name) {
  for (Direction direction : kDirections) {
    if (name == to_string(direction)) return direction;
  }
  return std::nullopt;
}

Lake::Lake(std::vector<std::string> rows) : rows_(std::move(rows)) {
  if (rows_.size() < 2 || rows_.size() > 32) {
    throw input_error(fmt::format("a lake has 2 to 32 rows, found {}", rows_.size()));
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].size() != rows_.size()) {
      throw input_error(
          fmt::format("row {} of a lake of {} rows has {} letters", row, rows_.size(), rows_[row].size()));
    }
    for (size_t column = 0; column < rows_.size(); ++column) {
      size_t field = row * rows_.size() + column;
      std::string_view allowed = field == 0 ? "S" : field + 1 == rows_.size() * rows_.size() ? "G" : "FH";
      if (allowed.find(rows_[row][column]) == std::string_view::npos) {
        throw input_error(
            fmt::format("row {} of a lake has '{}' at column {}; S stands first, G last, else F or H", row,
                        rows_[row][column], column));
      }
    }
  }
}

int Lake::beside(int field, Direction direction) const {
  int row = field / size(), column = field % size();
  switch (direction) {
    case Direction::kLeft:
      column = std::max(column - 1, 0);
      break;
    case Direction::kDown:
      row = std::min(row + 1, size() - 1);
      break;
    case Direction::kRight:
      column = std::min(column + 1, size() - 1);
      break;
    case Direction::kUp:
      row = std::max(row - 1, 0);
      break;
  }
  return row * size() + column;
}

std::string Lake::drawn(int walker) const {
  std::string text = this->text();
  text[static_cast<size_t>(walker + walker / size())] = 'P';
  return text;
}

std::string Lake::text() const {
  std::string text;
  for (const std::string& row : rows_) text += (text.empty() ? "" : "\n") + row;
  return text;
}

Lake draw_lake(int size, double ice, RandomStream& random) {
  for (;;) {
    std::vector<std::string> rows(static_cast<size_t>(size), std::string(static_cast<size_t>(size), 'F'));
    for (std::string& row : rows) {
      for (char& field : row) field = random.uniform() < ice ? 'F' : 'H';
    }
    rows.front().front() = 'S';
    rows.back().back() = 'G';
    Lake lake(std::move(rows));
    if (moves_to_goal(lake)[0] >= 0) return lake;
  }
}

std::vector<int> moves_to_goal(const Lake& lake) {
  std::vector<int> moves(static_cast<size_t>(lake.fields()), -1);
  std::deque<int> open = {lake.fields() - 1};
  moves.back() = 0;
  while (!open.empty()) {
    int field = open.front();
    open.pop_front();
    // On a square without borders to step over, the fields one move away are those beside.
    for (Direction direction : kDirections) {
      int before = lake.beside(field, direction);
      if (lake.is_end(before) || moves[static_cast<size_t>(before)] >= 0) continue;
      moves[static_cast<size_t>(before)] = moves[static_cast<size_t>(field)] + 1;
      open.push_back(before);
    }
  }
  return moves;
}

Direction slipped(Direction wanted, double draw) { return turned(wanted, static_cast<int>(draw * 3) - 1); }

std::vector<std::vector<Direction>> best_moves(const Lake& lake, bool slippery) {
  std::vector<std::vector<Direction>> best(static_cast<size_t>(lake.fields()));
  std::vector<int> distance = moves_to_goal(lake);
  std::vector<double> values;
  if (slippery) values = slippery_values(lake);
  for (int field = 0; field < lake.fields(); ++field) {
    if (lake.is_end(field) || distance[static_cast<size_t>(field)] < 0) continue;
    for (Direction direction : kDirections) {
      bool good = false;
      if (slippery) {
        good = slippery_value(lake, values, field, direction) >= values[static_cast<size_t>(field)] - kEqual;
      } else {
        int next = lake.beside(field, direction);
        good = distance[static_cast<size_t>(next)] == distance[static_cast<size_t>(field)] - 1;
      }
      if (good) best[static_cast<size_t>(field)].push_back(direction);
    }
  }
  return best;
}

}  // namespace stoker
