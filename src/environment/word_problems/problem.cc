#include "environment/word_problems/problem.h"

#include <map>
#include <string_view>
#include <utility>

#include "environment/calculator/expression.h"

namespace stoker {
namespace {

constexpr const char* kNames[] = {"Mia", "Tom", "Anna",  "Ben",  "Sara", "Leo",   "Nina",  "Paul",
                                  "Eva", "Max", "Julia", "Omar", "Lucy", "David", "Maria", "Sam"};
constexpr const char* kItems[] = {"pens",    "apples", "books", "cards",  "stamps",  "marbles",
                                  "candles", "shirts", "coins", "bricks", "bottles", "plants",
                                  "tickets", "toys",   "lamps", "eggs"};

constexpr const char* kBoxes[] = {"boxes", "bags", "crates", "baskets", "cartons", "sacks", "trays", "jars"};
constexpr const char* kPlaces[] = {"shop",   "market",  "club", "camp",  "cinema",
                                   "garage", "theater", "zoo",  "store", "station"};
constexpr const char* kWorkers[] = {"baker",    "farmer", "tailor",    "painter", "driver",
                                    "gardener", "potter", "carpenter", "smith",   "cook"};

// In this order, so that a template draws the same whatever it uses.
constexpr struct {
  char letter;
  int64_t lowest, highest;
} kNumbers[] = {{'a', 11, 99}, {'b', 11, 99},     {'c', 11, 99},    {'p', 3, 9},
                {'q', 3, 9},   {'x', 2000, 9999}, {'y', 2000, 9999}};

}  // namespace

WordProblem fill_template(const WordTemplate& word_template, RandomStream& random) {
  std::map<std::string, std::string, std::less<>> words;
  size_t name = random.below(std::size(kNames));
  words["name"] = kNames[name];
  words["other"] = kNames[(name + 1 + random.below(std::size(kNames) - 1)) % std::size(kNames)];
  words["items"] = kItems[random.below(std::size(kItems))];
  for (const auto& number : kNumbers) {
    auto range = static_cast<uint64_t>(number.highest - number.lowest + 1);
    words[std::string(1, number.letter)] =
        std::to_string(number.lowest + static_cast<int64_t>(random.below(range)));
  }
  words["boxes"] = kBoxes[random.below(std::size(kBoxes))];
  words["place"] = kPlaces[random.below(std::size(kPlaces))];
  words["worker"] = kWorkers[random.below(std::size(kWorkers))];

  WordProblem problem;
  std::string_view text = word_template.text;
  while (!text.empty()) {
    size_t open = text.find('{');
    problem.question += text.substr(0, open);
    if (open == std::string_view::npos) break;
    size_t close = text.find('}', open);
    problem.question += words.find(text.substr(open + 1, close - open - 1))->second;
    text.remove_prefix(close + 1);
  }
  for (char c : std::string_view(word_template.expression)) {
    auto number = words.find(std::string_view(&c, 1));
    problem.expression += number != words.end() ? number->second : std::string(1, c);
  }
  problem.value = std::stoll(evaluate_expression(problem.expression)->to_string());
  return problem;
}

}  // namespace stoker
