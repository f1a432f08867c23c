#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "environment/command/command_environment.h"

namespace stoker {

// Whether an episode that is restored from its snapshot goes on as the one did that it was taken from: plays
// a turn of `task`, takes a snapshot, plays on, closes, restores, plays on with the same words and compares
// what was said and scored. Sentences with their remedies; none when it agrees, or when the episode is over
// after its first turn. For environments that offer snapshots.
Task<std::vector<std::string>> check_snapshot(std::shared_ptr<const OutsideEnvironment> outside, TaskRow task,
                                              uint64_t seed);

}  // namespace stoker
