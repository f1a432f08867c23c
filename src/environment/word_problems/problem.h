#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/random.h"

namespace stoker {

// A story that asks for a number. In `text`, {name}, {other}, {items}, {boxes}, {place} and {worker} are
// drawn words. A letter is a drawn number, in `text` in braces: a, b, c have two digits, p, q lie between 3
// and 9, x, y between 2000 and 9999. `expression` is over the same letters, and above 0 whatever is drawn.
struct WordTemplate {
  const char* text;
  const char* expression;
};

// Of one to three steps; fixed, so that tasks are.
std::span<const WordTemplate> training_templates();
std::span<const WordTemplate> held_out_templates();  // other stories than those of training

// "Mia buys 12 boxes of 24 pens. How many pens is that?", "12*24", 288.
struct WordProblem {
  std::string question;
  std::string expression;
  int64_t value = 0;
};

// Draws the words and numbers of a template.
WordProblem fill_template(const WordTemplate& word_template, RandomStream& random);

}  // namespace stoker
