#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_official_schema.py MAKE_TRACE: read a trace of ours with Perfetto's own schema.

Needs the PyPI package perfetto (the schema) and protobuf.  Every field must be known to the schema, and
the slices that a viewer rebuilds must be those that were recorded.
"""
import collections
import os
import subprocess
import sys
import tempfile
import zlib

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def check_known(message):
    """Fail on a field that the schema does not have."""
    unknown = unknown_fields.UnknownFieldSet(message)
    assert len(unknown) == 0, f"unknown field {unknown[0].field_number} in {type(message).__name__}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                check_known(inner)


def argument(event, names, *wanted):
    """The value of the first of the wanted annotations."""
    found = {names[a.name_iid]: a.uint_value for a in event.debug_annotations}
    return next(found[name] for name in wanted if name in found)


def read_dense(packet, dense, tracks, order, marks):
    """A packet of a sequence that has one track and a clock of its own."""
    state = dense.setdefault(packet.trusted_packet_sequence_id, {"names": {}, "arguments": {}})
    if packet.HasField("trace_packet_defaults"):
        assert packet.trace_packet_defaults.timestamp_clock_id == 64
        state["track"] = packet.trace_packet_defaults.track_event_defaults.track_uuid
        assert state["track"] in tracks
    if packet.HasField("clock_snapshot"):
        host, own = packet.clock_snapshot.clocks
        assert host.clock_id == schema.BUILTIN_CLOCK_MONOTONIC
        assert own.clock_id == 64 and own.is_incremental and own.timestamp == 0
        state["time"] = host.timestamp
    state["names"].update((n.iid, n.name) for n in packet.interned_data.event_names)
    state["arguments"].update((a.iid, a.name) for a in packet.interned_data.debug_annotation_names)
    if packet.HasField("track_event"):
        event = packet.track_event
        state["time"] += packet.timestamp
        begin = event.type == schema.TrackEvent.TYPE_SLICE_BEGIN
        marks.append((state["time"], order, event.type, state["track"], "" if begin else None,
                      state["names"][event.name_iid] if begin else None,
                      argument(event, state["arguments"], "block") if begin else None))


def read(path):
    """Tracks by uuid, and (time, order, track event, name, category) of each mark."""
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    for packet in list(trace.packet):
        if packet.HasField("compressed_packets"):
            trace.MergeFromString(zlib.decompress(packet.compressed_packets))
            trace.packet.remove(packet)
    check_known(trace)
    tracks, marks, stages, names, categories, clock = {}, [], [], {}, {}, None
    dense = {}  # sequence: [its track, its time, its names]
    packet_type = schema.TracePacket
    for order, packet in enumerate(trace.packet):
        if packet.trusted_packet_sequence_id != 1:
            read_dense(packet, dense, tracks, order, marks)
            continue
        if packet.sequence_flags & packet_type.SEQ_INCREMENTAL_STATE_CLEARED:
            names, categories, arguments, specifications, contexts = {}, {}, {}, {}, set()
            clock = packet.trace_packet_defaults.timestamp_clock_id
        names.update((n.iid, n.name) for n in packet.interned_data.event_names)
        arguments.update((a.iid, a.name) for a in packet.interned_data.debug_annotation_names)
        categories.update((c.iid, c.name) for c in packet.interned_data.event_categories)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("clock_snapshot"):
            assert packet.clock_snapshot.primary_trace_clock == schema.BUILTIN_CLOCK_MONOTONIC
        specifications.update((i.iid, i.name) for i in packet.interned_data.gpu_specifications)
        contexts.update(i.iid for i in packet.interned_data.graphics_contexts
                        if i.api == schema.InternedGraphicsContext.CUDA)
        if packet.HasField("gpu_render_stage_event"):
            event = packet.gpu_render_stage_event
            assert packet.sequence_flags & packet_type.SEQ_NEEDS_INCREMENTAL_STATE
            assert event.context in contexts
            stages.append((specifications[event.hw_queue_iid], "gpu", specifications[event.stage_iid],
                           packet.timestamp, packet.timestamp + event.duration, int(event.extra_data[0].value)))
        if packet.HasField("track_event"):
            event = packet.track_event
            if event.type == schema.TrackEvent.TYPE_COUNTER:
                assert tracks[event.track_uuid].HasField("counter")
                continue
            if event.type == schema.TrackEvent.TYPE_INSTANT:
                assert event.track_uuid in tracks and names[event.name_iid]
                continue
            assert packet.sequence_flags & packet_type.SEQ_NEEDS_INCREMENTAL_STATE
            assert clock == schema.BUILTIN_CLOCK_MONOTONIC
            assert event.track_uuid in tracks
            begin = event.type == schema.TrackEvent.TYPE_SLICE_BEGIN
            name = names[event.name_iid] if begin else None
            category = categories[event.category_iids[0]] if begin else None
            number = argument(event, arguments, "id", "batch") if begin else None
            marks.append((packet.timestamp, order, event.type, event.track_uuid, category, name, number))
    return tracks, marks, stages


def rebuild(tracks, marks):
    """The slices, as a viewer pairs begins and ends."""
    slices, open_slices = [], collections.defaultdict(list)
    for time, _, kind, uuid, category, name, number in sorted(marks, key=lambda mark: mark[:2]):
        stack = open_slices[uuid]
        if kind == schema.TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((category, name, time, number))
            continue
        assert kind == schema.TrackEvent.TYPE_SLICE_END
        category, name, begin, number = stack.pop()
        track = tracks[uuid]
        slices.append((track.name or track.thread.thread_name, category, name, begin, time, number))
    assert not any(open_slices.values()), "a slice without an end"
    return slices


def check(path, expected):
    tracks, marks, stages = read(path)
    found = rebuild(tracks, marks) + stages
    missing = collections.Counter(expected) - collections.Counter(found)
    assert not missing, f"not in the trace: {list(missing)[:3]}"
    assert len(found) == len(expected) + 1  # and the summary of the batch
    gpu = next(t for t in tracks.values() if t.name == "GPU 0: example")
    assert tracks[gpu.parent_uuid].process.process_name == "gantry"
    return len(found), len(tracks), os.path.getsize(path)


def main():
    for compress in (False, True):
        environment = {**os.environ, **({"MAKE_TRACE_COMPRESS": "1"} if compress else {})}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pftrace")
            printed = subprocess.run([sys.argv[1], path], check=True, capture_output=True, text=True,
                                     env=environment).stdout
            expected = []
            for line in printed.splitlines():
                track, category, name, begin, end, number = line.split("\t")
                expected.append((track, category, name, int(begin), int(end), int(number)))
            assert len(expected) == 300 * 12 + 5 + 54 + 4 * 401
            print("%d slices on %d tracks in %d bytes" % check(path, expected))


main()
