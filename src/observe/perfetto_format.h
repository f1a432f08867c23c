#pragma once

#include <cstdint>

namespace stoker::perfetto {

// Field numbers of perfetto/protos/perfetto/trace (trace.proto, trace_packet.proto, track_event.proto,
// track_descriptor.proto, counter_descriptor.proto, interned_data.proto, debug_annotation.proto).
using Field = uint32_t;

constexpr Field kTracePacket = 1;

constexpr Field kTimestamp = 8;
constexpr Field kSequenceId = 10;
constexpr Field kTrackEvent = 11;
constexpr Field kInternedData = 12;
constexpr Field kSequenceFlags = 13;
constexpr Field kTrackDescriptor = 60;
constexpr uint32_t kStateCleared = 1;  // of kSequenceFlags: interned data start anew
constexpr uint32_t kNeedsState = 2;    // the packet refers to interned data

constexpr Field kInternedEventNames = 2;
constexpr Field kInternedNoteNames = 3;
constexpr Field kInternedId = 1;
constexpr Field kInternedName = 2;

constexpr Field kTrackUuid = 1;
constexpr Field kTrackName = 2;
constexpr Field kTrackParent = 5;
constexpr Field kTrackCounter = 8;

constexpr Field kCounterUnitName = 6;

constexpr Field kEventNotes = 4;
constexpr Field kEventType = 9;
constexpr Field kEventNameId = 10;
constexpr Field kEventTrack = 11;
constexpr Field kEventDoubleValue = 44;
constexpr Field kEventFlows = 47;
constexpr uint32_t kSliceBegin = 1;
constexpr uint32_t kSliceEnd = 2;
constexpr uint32_t kCounterValue = 4;

constexpr Field kNoteDouble = 5;
constexpr Field kNoteString = 6;
constexpr Field kNoteName = 10;

constexpr uint32_t kSequence = 1;  // all packets are of one writer

}  // namespace stoker::perfetto
