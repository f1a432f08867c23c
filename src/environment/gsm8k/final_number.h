#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// The final number of an answer in GSM8K's manner, in canonical form: "-12.5", "1234", or "1/3" where no
// decimal is exact; empty when there is none. The rules, in this order:
//
// 1. Where the text says which part is the answer, that part counts, the last such mark of the text: after
//    "####" to the end of the line, or inside "\boxed{...}".
// 2. Otherwise after the last "answer is" or "answer:" (in any case) to the end of its sentence, if a number
//    is there.
// 3. Otherwise the last number of the text.
//
// In a marked part the number is the first one after its last "=". Numbers are read with thousands commas,
// currency signs, decimals, exponents, fractions (3/4, \frac{3}{4}) and mixed numbers (1 1/2). The Python
// twin is examples/gsm8k/reward.py; both agree on examples/gsm8k/answer_cases.jsonl. Linear in the length.
std::optional<std::string> final_number(std::string_view text);

}  // namespace stoker
