#pragma once

#include "text/parsers/turn_scan.h"

namespace stoker {

inline constexpr std::string_view kFence[] = {"```"};

// Reads a fence of three backticks at the place read up to. If what stands in it are calls (JSON objects with
// name and arguments, one, several, or a list; with `python` also f(a=1), a list of such, and print(f(a=1))),
// they are taken as calls. Otherwise the fence is content, to its closing backticks. Returns kRestart if a
// thinking that the prompt opened ended in it, else 0.
Reading<int> read_fence(TurnScan& scan, bool python);

}  // namespace stoker
