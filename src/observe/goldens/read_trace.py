"""Prints a trace with Perfetto's own message classes: a line a track, a span's begin or end, a counter's value."""

import pathlib
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

FOLDER = pathlib.Path(__file__).parent
EVENT = messages.TrackEvent


def lines_of(trace):
    names, tracks = {}, {}
    for packet in trace.packet:
        assert len(UnknownFieldSet(packet)) == 0, packet
        assert packet.trusted_packet_sequence_id == 1
        if packet.sequence_flags == 1:
            names = {entry.iid: entry.name for entry in packet.interned_data.event_names}
            yield "names " + ", ".join(names.values())
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            tracks[track.uuid] = track.name
            parent = f" under {tracks[track.parent_uuid]}" if track.HasField("parent_uuid") else ""
            counter = f" counts {track.counter.unit_name}" if track.HasField("counter") else ""
            yield f"track {track.name}{parent}{counter}"
        if packet.HasField("track_event"):
            yield event_line(packet, names, tracks)


def event_line(packet, names, tracks):
    event = packet.track_event
    start = f"{packet.timestamp} {tracks[event.track_uuid]}"
    if event.type == EVENT.TYPE_COUNTER:
        return f"{start} = {event.double_counter_value:g}"
    assert packet.sequence_flags == 2
    line = start + (f" begin {names[event.name_iid]}" if event.type == EVENT.TYPE_SLICE_BEGIN else " end")
    for flow in event.flow_ids:
        line += f" flow {flow & 0xFFFFFFFF}"
    for note in event.debug_annotations:
        value = note.string_value if note.HasField("string_value") else f"{note.double_value:g}"
        line += f" {note.name}={value}"
    return line


def main():
    trace = messages.Trace()
    trace.ParseFromString((FOLDER / "small.perfetto-trace").read_bytes())
    text = "\n".join(lines_of(trace)) + "\n"
    golden = FOLDER / "small.txt"
    if "--check" not in sys.argv:
        golden.write_text(text)
    elif golden.read_text() != text:
        sys.exit(f"{golden} differs from what Perfetto's classes read")


main()
