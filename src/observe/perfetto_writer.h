#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/trace.h"

namespace stoker {

struct PerfettoOptions {
  int64_t max_file_bytes = int64_t{32} << 20;  // a file that is longer is followed by the next
  int32_t max_files = 8;                       // the oldest go
  int64_t time_offset = 0;                     // added to every time: what the Executor clock began at
};

// Writes a trace as the run goes: FOLDER/trace-000001.perfetto-trace and so on, protobuf files that
// ui.perfetto.dev and trace_processor open, each by itself. A file begins with what it refers to; a span that
// was open when it began is begun again, with its own time.
//
// Packets are gathered and written in blocks of kBlockBytes, so that a killed run lacks its last ones. When a
// file cannot be written the trace ends with a warning and the run goes on. Loop thread only.
class PerfettoWriter final : public Tracer {
 public:
  static constexpr size_t kBlockBytes = size_t{64} << 10;

  // Creates the folder. Files that are there stay, and the numbers go on behind them: a resumed run.
  // Throws Error when the folder cannot be written.
  PerfettoWriter(std::filesystem::path folder, const PerfettoOptions& options);
  ~PerfettoWriter() override;

  TraceTrack open_track(std::string name, TraceTrack parent = {}) override;
  void close_track(TraceTrack track) override;
  uint64_t flow_of(TraceTrack track) const override { return tracks_[track.number].uuid; }
  void begin(TraceTrack track, TraceSpan span, int64_t time, const TraceDetails& details = {}) override;
  void end(TraceTrack track, int64_t time, const TraceDetails& details = {}) override;
  void count(TraceCounter counter, int64_t time, double value) override;

  // Hands what was gathered to the operating system.
  void flush();

 private:
  struct OpenSpan {
    TraceSpan span{};
    int64_t time = 0;
  };
  struct Track {
    uint64_t uuid = 0;
    uint64_t parent = 0;  // uuid
    uint32_t parent_number = 0;
    std::string name;
    int64_t described_in = 0;  // number of the file that knows the track
    uint32_t depth = 0;
    std::array<OpenSpan, kTraceDepth> open{};
  };

  Track& touch(TraceTrack track);
  void describe(Track& track, const char* counter_unit);
  void write_event(uint32_t type, uint64_t uuid, int64_t time, int name, const TraceDetails& details);
  void write_packet(const char* body, size_t size);
  void open_file();
  void write_names();
  void make_room();
  void give_up(const Error& error);

  std::filesystem::path folder_;
  PerfettoOptions options_;
  std::deque<std::filesystem::path> files_;  // oldest first, those of an earlier start included
  int64_t file_number_ = 0;
  int64_t file_bytes_ = 0;
  Descriptor file_;
  bool given_up_ = false;
  std::string buffer_;
  std::string scratch_;
  uint64_t last_uuid_ = 0;
  std::vector<Track> tracks_{1};  // by number; 0 is none
  std::vector<uint32_t> free_tracks_;
  std::array<Track, kTraceCounterNames.size()> counters_;
};

}  // namespace stoker
