#include "observe/perfetto_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "observe/perfetto_format.h"
#include "observe/trace_files.h"

namespace stoker {
namespace {

using namespace perfetto;  // the field numbers

constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2;

// Writes fields to memory that has room for them: an event costs a few dozen nanoseconds.
class FieldWriter {
 public:
  explicit FieldWriter(char* at) : begin_(at), at_(at) {}

  void varint(Field field, uint64_t value) {
    key(field, kVarint);
    at_ += protozero::write_varint(at_, value);
  }
  void fixed64(Field field, uint64_t value) {
    key(field, kFixed64);
    for (int i = 0; i < 8; ++i) *at_++ = static_cast<char>(value >> (8 * i));
  }
  void real(Field field, double value) { fixed64(field, std::bit_cast<uint64_t>(value)); }
  // Key and length of what follows.
  void head(Field field, size_t size) {
    key(field, kBytes);
    at_ += protozero::write_varint(at_, size);
  }
  void bytes(Field field, const char* data, size_t size) {
    head(field, size);
    std::memcpy(at_, data, size);
    at_ += size;
  }
  const char* data() const { return begin_; }
  size_t size() const { return static_cast<size_t>(at_ - begin_); }

 private:
  void key(Field field, uint32_t wire) { at_ += protozero::write_varint(at_, (field << 3) | wire); }

  char* begin_;
  char* at_;
};

// By TraceCounter.
constexpr std::array<const char*, kTraceCounterNames.size()> kCounterUnits = {
    "episodes", "groups", "groups", "requests", "requests", "tokens/s", "share", "seconds", "versions"};

constexpr size_t kMostFieldBytes = 16;  // of a number with its key
constexpr size_t kMostNoteText = 200;   // longer ones are cut

size_t room_for(const TraceDetails& details) {
  size_t room = 8 * kMostFieldBytes + details.flows.size() * kMostFieldBytes;
  for (const TraceNote& note : details.notes) room += std::strlen(note.name) + kMostNoteText + 48;
  return room;
}

void add_note(FieldWriter& event, const TraceNote& note) {
  char memory[512];
  FieldWriter annotation(memory);
  annotation.bytes(kNoteName, note.name, std::min<size_t>(std::strlen(note.name), 64));
  if (note.text.empty()) {
    annotation.real(kNoteDouble, note.number);
  } else {
    annotation.bytes(kNoteString, note.text.data(), std::min(note.text.size(), kMostNoteText));
  }
  event.bytes(kEventNotes, annotation.data(), annotation.size());
}

}  // namespace

PerfettoWriter::PerfettoWriter(std::filesystem::path folder, const PerfettoOptions& options)
    : folder_(std::move(folder)), options_(options) {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  for (std::filesystem::path& file : trace_files(folder_)) files_.push_back(std::move(file));
  if (!files_.empty()) file_number_ = trace_file_number(files_.back());
  open_file();
  // Of a resumed run: other tracks than those of the files before.
  last_uuid_ = static_cast<uint64_t>(file_number_) << 32;
  for (size_t i = 0; i < counters_.size(); ++i) {
    counters_[i].uuid = ++last_uuid_;
    counters_[i].name = kTraceCounterNames[i];
  }
}

PerfettoWriter::~PerfettoWriter() { flush(); }

void PerfettoWriter::open_file() {
  const std::filesystem::path path = folder_ / trace_file_name(++file_number_);
  file_ = stoker::open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, "write");
  file_bytes_ = 0;
  files_.push_back(path);
  std::error_code code;
  while (files_.size() > static_cast<size_t>(std::max(options_.max_files, 1))) {
    std::filesystem::remove(files_.front(), code);
    files_.pop_front();
  }
  write_names();
}

// What the packets of this file call by number.
void PerfettoWriter::write_names() {
  std::string packet;
  protozero::pbf_writer writer(packet);
  writer.add_uint32(kSequenceId, kSequence);
  writer.add_uint32(kSequenceFlags, kStateCleared);
  {
    protozero::pbf_writer interned(writer, kInternedData);
    for (size_t i = 0; i < kTraceSpanNames.size(); ++i) {
      protozero::pbf_writer name(interned, kInternedEventNames);
      name.add_uint64(kInternedId, i + 1);
      name.add_string(kInternedName, kTraceSpanNames[i]);
    }
  }
  write_packet(packet.data(), packet.size());
}

void PerfettoWriter::write_packet(const char* body, size_t size) {
  if (given_up_) return;
  char memory[kMostFieldBytes];
  FieldWriter header(memory);
  header.head(kTracePacket, size);
  buffer_.append(memory, header.size());
  buffer_.append(body, size);
}

TraceTrack PerfettoWriter::open_track(std::string name, TraceTrack parent) {
  uint32_t number = static_cast<uint32_t>(tracks_.size());
  if (free_tracks_.empty()) {
    tracks_.emplace_back();
  } else {
    number = free_tracks_.back();
    free_tracks_.pop_back();
  }
  Track& track = tracks_[number];
  track = Track{.uuid = ++last_uuid_, .name = std::move(name)};
  if (parent) {
    track.parent = tracks_[parent.number].uuid;
    track.parent_number = parent.number;
  }
  return {number};
}

void PerfettoWriter::close_track(TraceTrack track) {
  if (!track) return;
  tracks_[track.number].name.clear();
  tracks_[track.number].depth = 0;
  free_tracks_.push_back(track.number);
}

// `counter_unit`: null for a track of spans.
void PerfettoWriter::describe(Track& track, const char* counter_unit) {
  track.described_in = file_number_;
  std::string packet;
  protozero::pbf_writer writer(packet);
  writer.add_uint32(kSequenceId, kSequence);
  {
    protozero::pbf_writer descriptor(writer, kTrackDescriptor);
    descriptor.add_uint64(kTrackUuid, track.uuid);
    descriptor.add_string(kTrackName, track.name);
    if (track.parent != 0) descriptor.add_uint64(kTrackParent, track.parent);
    if (counter_unit != nullptr) {
      protozero::pbf_writer counter(descriptor, kTrackCounter);
      counter.add_string(kCounterUnitName, counter_unit);
    }
  }
  write_packet(packet.data(), packet.size());
}

// The track, known to the present file with all its open spans.
PerfettoWriter::Track& PerfettoWriter::touch(TraceTrack number) {
  make_room();
  Track& track = tracks_[number.number];
  if (track.described_in == file_number_) return track;
  if (track.parent != 0 && tracks_[track.parent_number].uuid == track.parent) touch({track.parent_number});
  describe(track, nullptr);
  for (uint32_t i = 0; i < track.depth; ++i) {
    write_event(kSliceBegin, track.uuid, track.open[i].time, static_cast<int>(track.open[i].span), {});
  }
  return track;
}

void PerfettoWriter::begin(TraceTrack number, TraceSpan span, int64_t time, const TraceDetails& details) {
  if (given_up_ || !number) return;
  Track& track = touch(number);
  if (track.depth == kTraceDepth) {
    throw internal_error(
        fmt::format("The trace's track '{}' has {} spans open at once.", track.name, track.depth));
  }
  track.open[track.depth++] = {span, time};
  write_event(kSliceBegin, track.uuid, time, static_cast<int>(span), details);
}

void PerfettoWriter::end(TraceTrack number, int64_t time, const TraceDetails& details) {
  if (given_up_ || !number) return;
  Track& track = touch(number);
  if (track.depth == 0) throw internal_error("A span of the trace was ended that had not begun.");
  --track.depth;
  write_event(kSliceEnd, track.uuid, time, -1, details);
}

void PerfettoWriter::count(TraceCounter counter, int64_t time, double value) {
  if (given_up_) return;
  Track& track = counters_[static_cast<size_t>(counter)];
  make_room();
  if (track.described_in != file_number_) describe(track, kCounterUnits[static_cast<size_t>(counter)]);
  char memory[8 * kMostFieldBytes];
  FieldWriter event(memory);
  event.varint(kEventType, kCounterValue);
  event.varint(kEventTrack, track.uuid);
  event.real(kEventDoubleValue, value);
  char packet_memory[12 * kMostFieldBytes];
  FieldWriter packet(packet_memory);
  packet.varint(kTimestamp, static_cast<uint64_t>(time + options_.time_offset));
  packet.varint(kSequenceId, kSequence);
  packet.bytes(kTrackEvent, event.data(), event.size());
  write_packet(packet.data(), packet.size());
  if (buffer_.size() >= kBlockBytes) flush();
}

// `name`: a TraceSpan; -1: none.
void PerfettoWriter::write_event(uint32_t type, uint64_t uuid, int64_t time, int name,
                                 const TraceDetails& details) {
  const size_t room = room_for(details);
  scratch_.resize(std::max(scratch_.size(), 2 * room + 4 * kMostFieldBytes));
  FieldWriter event(scratch_.data());
  event.varint(kEventType, type);
  event.varint(kEventTrack, uuid);
  if (name >= 0) event.varint(kEventNameId, static_cast<uint64_t>(name) + 1);
  for (uint64_t flow : details.flows) event.fixed64(kEventFlows, flow);
  for (const TraceNote& note : details.notes) add_note(event, note);
  FieldWriter packet(scratch_.data() + room);
  packet.varint(kTimestamp, static_cast<uint64_t>(time + options_.time_offset));
  packet.varint(kSequenceId, kSequence);
  packet.varint(kSequenceFlags, kNeedsState);
  packet.bytes(kTrackEvent, event.data(), event.size());
  write_packet(packet.data(), packet.size());
  if (buffer_.size() >= kBlockBytes) flush();
}

void PerfettoWriter::flush() {
  if (given_up_ || buffer_.empty()) return;
  const int code = write_all(file_.get(), buffer_);
  file_bytes_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
  if (code != 0) give_up(file_error("write", files_.back(), code));
}

// A full file is followed by the next.
void PerfettoWriter::make_room() {
  if (given_up_ || file_bytes_ + static_cast<int64_t>(buffer_.size()) <= options_.max_file_bytes) return;
  flush();
  if (given_up_) return;
  try {
    open_file();
  } catch (const Error& error) {
    give_up(error);
  }
}

void PerfettoWriter::give_up(const Error& error) {
  given_up_ = true;
  buffer_.clear();
  log_warning("{} The run goes on without a trace.", error.what());
}

}  // namespace stoker
