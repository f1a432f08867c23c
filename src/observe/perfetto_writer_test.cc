#include "observe/perfetto_writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"
#include "observe/trace_files.h"
#include "observe/trace_reader.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// A reader that shares nothing with the writer but the published field numbers.
struct Wire {
  std::string_view rest;

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view bytes(size_t size) {
    if (rest.size() < size) throw std::runtime_error("cut");
    const std::string_view part = rest.substr(0, size);
    rest.remove_prefix(size);
    return part;
  }
};

// The fields of a message in order: number, then an integer or the bytes.
struct Value {
  uint64_t number = 0;
  std::string_view bytes;
};
std::multimap<uint64_t, Value> fields_of(std::string_view message) {
  Wire wire{message};
  std::multimap<uint64_t, Value> fields;
  while (!wire.rest.empty()) {
    const uint64_t key = wire.varint();
    Value value;
    if ((key & 7) == 0) {
      value.number = wire.varint();
    } else if ((key & 7) == 1) {
      const std::string_view eight = wire.bytes(8);
      std::memcpy(&value.number, eight.data(), 8);
    } else if ((key & 7) == 2) {
      value.bytes = wire.bytes(wire.varint());
    } else {
      throw std::runtime_error("wire type");
    }
    fields.emplace(key >> 3, value);
  }
  return fields;
}
uint64_t number_of(const std::multimap<uint64_t, Value>& fields, uint64_t key) {
  const auto found = fields.find(key);
  return found == fields.end() ? 0 : found->second.number;
}
std::string text_of(const std::multimap<uint64_t, Value>& fields, uint64_t key) {
  const auto found = fields.find(key);
  return found == fields.end() ? "" : std::string(found->second.bytes);
}

// One line an event: what a viewer would make of one file. Throws when the file refers to what it does not
// hold.
std::vector<std::string> slow_lines(const std::string& content) {
  std::map<uint64_t, std::string> names, tracks, units;
  std::map<uint64_t, int> depth;
  std::vector<std::string> lines;
  for (const auto& [key, packet_bytes] : fields_of(content)) {
    if (key != 1) throw std::runtime_error("no packet");
    const auto packet = fields_of(packet_bytes.bytes);
    if (number_of(packet, 10) != 1) throw std::runtime_error("sequence");
    if (packet.contains(12)) {
      if (number_of(packet, 13) != 1) throw std::runtime_error("state is not cleared");
      for (const auto& [field, entry] : fields_of(packet.find(12)->second.bytes)) {
        const auto name = fields_of(entry.bytes);
        if (field == 2) names[number_of(name, 1)] = text_of(name, 2);
      }
    }
    if (packet.contains(60)) {
      const auto track = fields_of(packet.find(60)->second.bytes);
      std::string& text = tracks[number_of(track, 1)];
      text = text_of(track, 2);
      if (track.contains(8)) units[number_of(track, 1)] = text_of(fields_of(track.find(8)->second.bytes), 6);
      if (track.contains(5)) text = tracks.at(number_of(track, 5)) + "/" + text;
    }
    if (!packet.contains(11)) continue;
    const auto event = fields_of(packet.find(11)->second.bytes);
    const uint64_t uuid = number_of(event, 11), type = number_of(event, 9);
    std::string line = fmt::format("{} {} ", number_of(packet, 8), tracks.at(uuid));
    if (type == 4) {
      line += fmt::format("= {} {}", std::bit_cast<double>(number_of(event, 44)), units.at(uuid));
    } else {
      if (number_of(packet, 13) != 2) throw std::runtime_error("the packet does not ask for names");
      line += type == 1 ? "begin " + names.at(number_of(event, 10)) : "end";
      depth[uuid] += type == 1 ? 1 : -1;
      if (depth[uuid] < 0) throw std::runtime_error("end without begin");
      const auto [first_flow, past_flow] = event.equal_range(47);
      line += fmt::format(" flows {}", std::distance(first_flow, past_flow));
      const auto [first_note, past_note] = event.equal_range(4);
      for (auto note_at = first_note; note_at != past_note; ++note_at) {
        const auto note = fields_of(note_at->second.bytes);
        line += fmt::format(
            " {}={}", text_of(note, 10),
            note.contains(6) ? text_of(note, 6) : fmt::to_string(std::bit_cast<double>(number_of(note, 5))));
      }
    }
    lines.push_back(line);
  }
  return lines;
}

class PerfettoWriterTest : public testing::Test {
 protected:
  std::vector<TraceSlice> slices() const {
    std::vector<TraceSlice> slices;
    read_trace(
        trace_files(folder_.path()),
        {.slice = [&](const TraceSlice& slice) { slices.push_back(slice); }, .count = {}, .start_ended = {}});
    return slices;
  }

  TestFolder folder_;
};

// A group of one episode, trained and published; also what the recorded trace in goldens/ holds.
void write_small_run(Tracer& tracer) {
  const TraceTrack group = tracer.open_track("group 17");
  tracer.begin(group, TraceSpan::kGroup, 1'000);
  const TraceTrack episode = tracer.open_track("episode 17.0", group);
  tracer.begin(episode, TraceSpan::kEpisode, 1'500);
  tracer.begin(episode, TraceSpan::kDecode, 2'000);
  tracer.end(episode, 3'000);
  const uint64_t episode_flow = tracer.flow_of(episode);
  tracer.begin(episode, TraceSpan::kClose, 3'000, {.flows = {&episode_flow, 1}});
  tracer.end(episode, 3'250);
  const TraceNote notes[] = {{.name = "outcome", .text = "done"}, {.name = "reward", .number = -0.5}};
  tracer.end(episode, 3'250, {.notes = notes});
  tracer.close_track(episode);
  tracer.count(TraceCounter::kReadyGroups, 3'250, 1);
  const uint64_t flows[] = {episode_flow, tracer.flow_of(group)};
  tracer.begin(group, TraceSpan::kWait, 3'250, {.flows = flows});
  tracer.end(group, 5'000);
  tracer.end(group, 5'000);
  tracer.close_track(group);
  const TraceTrack learner = tracer.open_track("learner");
  tracer.begin(learner, TraceSpan::kTrain, 5'000, {.flows = {&flows[1], 1}});
  tracer.end(learner, 9'000);
}

TEST_F(PerfettoWriterTest, AnIndependentReaderGetsBackWhatWasWritten) {
  {
    PerfettoWriter writer(folder_.path(), {.time_offset = 100});
    write_small_run(writer);
  }
  EXPECT_EQ(
      slow_lines(read_file(folder_ / "trace-000001.perfetto-trace")),
      (std::vector<std::string>{
          "1100 group 17 begin group flows 0", "1600 group 17/episode 17.0 begin episode flows 0",
          "2100 group 17/episode 17.0 begin decode flows 0", "3100 group 17/episode 17.0 end flows 0",
          "3100 group 17/episode 17.0 begin close flows 1", "3350 group 17/episode 17.0 end flows 0",
          "3350 group 17/episode 17.0 end flows 0 outcome=done reward=-0.5", "3350 ready groups = 1 groups",
          "3350 group 17 begin wait flows 2", "5100 group 17 end flows 0", "5100 group 17 end flows 0",
          "5100 learner begin train flows 1", "9100 learner end flows 0"}));
}

// goldens/make.sh checks that Perfetto's own message classes read this file as goldens/small.txt.
TEST_F(PerfettoWriterTest, WritesTheRecordedTraceByteForByte) {
  {
    PerfettoWriter writer(folder_.path(), {});
    write_small_run(writer);
  }
  EXPECT_EQ(read_file(folder_ / "trace-000001.perfetto-trace"),
            read_file(fs::path(STOKER_SOURCE_DIR) / "src/observe/goldens/small.perfetto-trace"));
}

TEST_F(PerfettoWriterTest, FilesAreBoundedAndEachStandsAlone) {
  constexpr int64_t kMost = 4096;
  {
    PerfettoWriter writer(folder_.path(), {.max_file_bytes = kMost, .max_files = 3});
    const TraceTrack group = writer.open_track("group 1");
    const TraceTrack episode = writer.open_track("episode 1.0", group);
    writer.begin(group, TraceSpan::kGroup, 1);
    writer.begin(episode, TraceSpan::kEpisode, 2);
    for (int64_t i = 0; i < 1000; ++i) {
      writer.begin(episode, TraceSpan::kDecode, 10 + i);
      writer.count(TraceCounter::kLag, 10 + i, 1);
      writer.end(episode, 11 + i);
    }
    writer.end(episode, 2000);
    writer.end(group, 2000);
  }
  const std::vector<fs::path> files = trace_files(folder_.path());
  ASSERT_EQ(files.size(), 3u);
  EXPECT_GT(trace_file_number(files[0]), 3);
  for (const fs::path& file : files) {
    EXPECT_LT(fs::file_size(file), static_cast<uintmax_t>(kMost + 512));
    const std::vector<std::string> lines = slow_lines(read_file(file));
    ASSERT_GT(lines.size(), 10u);
    const std::set<std::string> start(lines.begin(), lines.begin() + 6);
    EXPECT_TRUE(start.contains("1 group 1 begin group flows 0")) << lines[0];
    EXPECT_TRUE(start.contains("2 group 1/episode 1.0 begin episode flows 0")) << lines[0];
  }
}

TEST_F(PerfettoWriterTest, ASpanOverManyFilesIsReadOnce) {
  constexpr int64_t kDecodes = 500;
  {
    PerfettoWriter writer(folder_.path(), {.max_file_bytes = 2048, .max_files = 1000});
    const TraceTrack episode = writer.open_track("episode 1.0");
    writer.begin(episode, TraceSpan::kEpisode, 1);
    for (int64_t i = 0; i < kDecodes; ++i) {
      writer.begin(episode, TraceSpan::kDecode, 10 * i + 5);
      writer.end(episode, 10 * i + 9);
    }
    writer.end(episode, 10 * kDecodes);
  }
  EXPECT_GT(trace_files(folder_.path()).size(), 5u);
  const std::vector<TraceSlice> all = slices();
  ASSERT_EQ(all.size(), static_cast<size_t>(kDecodes + 1));
  for (int64_t i = 0; i < kDecodes; ++i) {
    const TraceSlice& slice = all[static_cast<size_t>(i)];
    EXPECT_EQ(slice.name, "decode");
    EXPECT_EQ(slice.depth, 1);
    EXPECT_EQ(slice.begin, 10 * i + 5);
    EXPECT_EQ(slice.end, 10 * i + 9);
  }
  EXPECT_EQ(all.back().name, "episode");
  EXPECT_EQ(all.back().begin, 1);
  EXPECT_EQ(all.back().end, 10 * kDecodes);
}

TEST_F(PerfettoWriterTest, AResumedRunGoesOnBehindTheFilesThatAreThere) {
  uint64_t flows[2];
  for (int start = 0; start < 2; ++start) {
    PerfettoWriter writer(folder_.path(), {});
    const TraceTrack track = writer.open_track("learner");
    flows[start] = writer.flow_of(track);
    const int64_t time = 1000 * start;
    writer.begin(track, TraceSpan::kTrain, time + 10);
    writer.count(TraceCounter::kLag, time + 14, 1);
    if (start == 1) writer.end(track, time + 20);
  }
  EXPECT_NE(flows[0], flows[1]);
  EXPECT_EQ(trace_files(folder_.path()).size(), 2u);
  const std::vector<TraceSlice> all = slices();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].open);  // of the start that was killed, at whose last time it ends
  EXPECT_EQ(all[0].begin, 10);
  EXPECT_EQ(all[0].end, 14);
  EXPECT_FALSE(all[1].open);
  EXPECT_EQ(all[1].begin, 1010);
  EXPECT_EQ(all[1].end, 1020);
}

TEST_F(PerfettoWriterTest, EachStartOfARunIsToldOfByItself) {
  for (int64_t start = 0; start < 3; ++start) {
    PerfettoWriter writer(folder_.path(), {.max_file_bytes = 600});
    for (int64_t i = 0; i < 20; ++i) writer.count(TraceCounter::kLag, i, static_cast<double>(start));
  }
  EXPECT_GT(trace_files(folder_.path()).size(), 4u);
  std::vector<int> counts(1);
  read_trace(trace_files(folder_.path()), {.slice = {},
                                           .count =
                                               [&](const std::string&, int64_t, double value) {
                                                 EXPECT_EQ(value, static_cast<double>(counts.size() - 1));
                                                 ++counts.back();
                                               },
                                           .start_ended = [&] { counts.push_back(0); }});
  EXPECT_EQ(counts, (std::vector<int>{20, 20, 20, 0}));
}

TEST_F(PerfettoWriterTest, ACutFileGivesItsWholePackets) {
  {
    PerfettoWriter writer(folder_.path(), {});
    write_small_run(writer);
  }
  const std::string whole = read_file(folder_ / "trace-000001.perfetto-trace");
  ASSERT_EQ(slices().size(), 6u);
  for (size_t size = 1; size < whole.size(); size += 7) {
    write_file_atomic(folder_ / "trace-000001.perfetto-trace", whole.substr(0, size));
    EXPECT_LE(slices().size(), 6u);
  }
  write_file_atomic(folder_ / "trace-000001.perfetto-trace", "{\"traceEvents\": []}");
  EXPECT_THROW(slices(), Error);
}

TEST_F(PerfettoWriterTest, WhatCannotBeWrittenEndsTheTraceAndNotTheRun) {
  PerfettoWriter writer(folder_ / "trace", {.max_file_bytes = 1024});
  const TraceTrack track = writer.open_track("learner");
  fs::remove_all(folder_ / "trace");
  write_file_atomic(folder_ / "trace", "in the way");
  for (int64_t i = 0; i < 1000; ++i) {
    writer.begin(track, TraceSpan::kTrain, 2 * i);
    writer.count(TraceCounter::kLag, 2 * i, 0);
    writer.end(track, 2 * i + 1);
  }
  EXPECT_THROW(PerfettoWriter(folder_ / "trace", {}), Error);
}

TEST_F(PerfettoWriterTest, RefusesSpansThatDoNotNest) {
  PerfettoWriter writer(folder_.path(), {});
  const TraceTrack track = writer.open_track("learner");
  EXPECT_THROW(writer.end(track, 1), Error);
  for (size_t i = 0; i < kTraceDepth; ++i) writer.begin(track, TraceSpan::kTrain, 1);
  EXPECT_THROW(writer.begin(track, TraceSpan::kTrain, 1), Error);
}

TEST(TraceFiles, NamesAndNumbers) {
  EXPECT_EQ(trace_file_name(7), "trace-000007.perfetto-trace");
  EXPECT_EQ(trace_file_number("x/trace-000007.perfetto-trace"), 7);
  EXPECT_EQ(trace_file_number("trace-1234567.perfetto-trace"), 1234567);
  for (const char* other :
       {"trace-.perfetto-trace", "trace-x1.perfetto-trace", "trace-1.json", "trace-000000.perfetto-trace"}) {
    EXPECT_EQ(trace_file_number(other), 0) << other;
  }
  EXPECT_TRUE(trace_files("there/is/no/such/folder").empty());
}

}  // namespace
}  // namespace stoker
