#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stoker {

// A span of a trace, read back.
struct TraceSlice {
  uint64_t track = 0;
  std::string track_name;  // "episode 17.3"
  uint64_t parent = 0;     // the track above it; 0: none
  std::string name;        // "tool"
  int64_t begin = 0;       // ns
  int64_t end = 0;
  bool open = false;  // it never ended: `end` is the last time of its start of the run
  int depth = 0;      // 0: outermost of its track
  std::vector<uint64_t> flows;
  std::vector<std::pair<std::string, double>> numbers;  // notes of its begin, then of its end
  std::vector<std::pair<std::string, std::string>> texts;

  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

struct TraceVisitor {
  std::function<void(const TraceSlice& slice)> slice;  // inner ones before the one around them
  std::function<void(const std::string& counter, int64_t time, double value)> count;
  std::function<void()> start_ended;  // what follows is of a later start of the run, on other tracks
};

// Reads the files of one trace in order (trace_files.h): one start of the run after the other, of which each
// has tracks of its own and ends what it left open. A file of which the first was rotated away is read as far
// as it explains itself; a last packet that is cut is left out. Throws Error(kInput) naming the file when it
// is no trace of Stoker.
void read_trace(std::span<const std::filesystem::path> files, const TraceVisitor& visitor);

}  // namespace stoker
