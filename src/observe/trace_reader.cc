#include "observe/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>

#include "base/error.h"
#include "base/file.h"
#include "observe/perfetto_format.h"

namespace stoker {
namespace {

using namespace perfetto;  // the field numbers
using Reader = protozero::pbf_reader;

struct Track {
  std::string name;
  uint64_t parent = 0;
  bool counter = false;
  std::vector<TraceSlice> open;
};

class TraceRun {
 public:
  explicit TraceRun(const TraceVisitor& visitor) : visitor_(visitor) {}

  void read_file(const std::string& content) {
    names_.clear();
    Reader file(content);
    try {
      while (file.next(kTracePacket)) read_packet(file.get_message());
    } catch (const protozero::end_of_buffer_exception&) {
      // The last packet of a killed run.
    }
  }

  // Ends the present start of the run: nothing more comes on its tracks.
  void end_start() {
    if (!start_) return;
    for (auto& [uuid, track] : tracks_) {
      while (!track.open.empty()) close(track, last_time_, true);
    }
    std::erase_if(tracks_, [this](const auto& entry) { return start_of(entry.first) == *start_; });
    start_.reset();
    if (visitor_.start_ended) visitor_.start_ended();
  }

 private:
  // Which start of the run wrote a track: the number of the last file that was there before.
  static uint64_t start_of(uint64_t uuid) { return uuid >> 32; }

  struct Event {
    uint32_t type = 0;
    uint64_t track = 0;
    uint64_t name = 0;
    double value = 0;
    TraceSlice said;  // flows and notes
  };

  void read_packet(Reader packet) {
    int64_t time = 0;
    while (packet.next()) {
      switch (packet.tag()) {
        case kTimestamp:
          time = static_cast<int64_t>(packet.get_uint64());
          break;
        case kInternedData:
          read_names(packet.get_message());
          break;
        case kTrackDescriptor:
          read_track(packet.get_message());
          break;
        case kTrackEvent:
          take(read_event(packet.get_message()), time);
          break;
        default:
          packet.skip();
      }
    }
  }

  void read_names(Reader data) {
    while (data.next(kInternedEventNames)) {
      Reader entry = data.get_message();
      uint64_t id = 0;
      std::string name;
      while (entry.next()) {
        if (entry.tag() == kInternedId) {
          id = entry.get_uint64();
        } else if (entry.tag() == kInternedName) {
          name = entry.get_string();
        } else {
          entry.skip();
        }
      }
      names_[id] = std::move(name);
    }
  }

  void read_track(Reader descriptor) {
    uint64_t uuid = 0;
    std::string name;
    uint64_t parent = 0;
    bool counter = false;
    while (descriptor.next()) {
      switch (descriptor.tag()) {
        case kTrackUuid:
          uuid = descriptor.get_uint64();
          break;
        case kTrackName:
          name = descriptor.get_string();
          break;
        case kTrackParent:
          parent = descriptor.get_uint64();
          break;
        case kTrackCounter:
          counter = true;
          descriptor.skip();
          break;
        default:
          descriptor.skip();
      }
    }
    Track& track = tracks_[uuid];
    track.name = std::move(name);
    track.parent = parent;
    track.counter = counter;
  }

  static void read_note(Reader note, TraceSlice& said) {
    std::string name, text;
    double number = 0;
    bool is_text = false;
    while (note.next()) {
      switch (note.tag()) {
        case kNoteName:
          name = note.get_string();
          break;
        case kNoteDouble:
          number = note.get_double();
          break;
        case kNoteString:
          text = note.get_string();
          is_text = true;
          break;
        default:
          note.skip();
      }
    }
    if (is_text) {
      said.texts.emplace_back(std::move(name), std::move(text));
    } else {
      said.numbers.emplace_back(std::move(name), number);
    }
  }

  static Event read_event(Reader message) {
    Event event;
    while (message.next()) {
      switch (message.tag()) {
        case kEventType:
          event.type = message.get_uint32();
          break;
        case kEventTrack:
          event.track = message.get_uint64();
          break;
        case kEventNameId:
          event.name = message.get_uint64();
          break;
        case kEventDoubleValue:
          event.value = message.get_double();
          break;
        case kEventFlows:
          event.said.flows.push_back(message.get_fixed64());
          break;
        case kEventNotes:
          read_note(message.get_message(), event.said);
          break;
        default:
          message.skip();
      }
    }
    return event;
  }

  void take(Event event, int64_t time) {
    if (start_ != start_of(event.track)) {
      end_start();
      start_ = start_of(event.track);
      last_time_ = time;
    }
    last_time_ = std::max(last_time_, time);
    Track& track = tracks_[event.track];
    if (event.type == kCounterValue) {
      if (visitor_.count) visitor_.count(track.name, time, event.value);
    } else if (event.type == kSliceBegin) {
      open(track, std::move(event), time);
    } else if (event.type == kSliceEnd && !track.open.empty()) {
      TraceSlice& slice = track.open.back();
      std::ranges::move(event.said.numbers, std::back_inserter(slice.numbers));
      std::ranges::move(event.said.texts, std::back_inserter(slice.texts));
      close(track, time, false);
    }
  }

  void open(Track& track, Event event, int64_t time) {
    const std::string& name = names_[event.name];
    const auto repeated = [&](const TraceSlice& slice) { return slice.begin == time && slice.name == name; };
    if (std::ranges::any_of(track.open, repeated)) return;  // a new file tells what is open
    TraceSlice& slice = track.open.emplace_back(std::move(event.said));
    slice.track = event.track;
    slice.track_name = track.name;
    slice.parent = track.parent;
    slice.name = name;
    slice.begin = time;
    slice.depth = static_cast<int>(track.open.size()) - 1;
  }

  void close(Track& track, int64_t time, bool open) {
    TraceSlice slice = std::move(track.open.back());
    track.open.pop_back();
    slice.end = time;
    slice.open = open;
    if (visitor_.slice) visitor_.slice(slice);
  }

  const TraceVisitor& visitor_;
  std::map<uint64_t, std::string> names_;
  std::map<uint64_t, Track> tracks_;
  std::optional<uint64_t> start_;
  int64_t last_time_ = 0;  // of the start
};

}  // namespace

void read_trace(std::span<const std::filesystem::path> files, const TraceVisitor& visitor) {
  TraceRun run(visitor);
  for (const std::filesystem::path& file : files) {
    try {
      const std::string content = stoker::read_file(file);
      constexpr char kFirstByte = (kTracePacket << 3) | 2;
      if (!content.empty() && content[0] != kFirstByte) throw protozero::invalid_tag_exception();
      run.read_file(content);
    } catch (const protozero::exception& error) {
      throw input_error(
          fmt::format("{} is no trace that this program wrote: {}.", file.string(), error.what()));
    }
  }
  run.end_start();
}

}  // namespace stoker
