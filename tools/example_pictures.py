#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw what ran when in each example, as the small pictures of the gallery.

Usage: example_pictures.py PROGRAMS GANTRY [OUT]

PROGRAMS is a folder with the built examples (examples/CMakeLists.txt), GANTRY the command, OUT the folder for NAME.svg, by default
examples/images.  A picture shows order alone: each begin and each end of something is one step to the right, since the times of the emulated
device mean nothing.  Run it when an example changes; two runs may differ in what happened to be first.
"""
import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
NAMES = ["hello_graph", "order_with_edges", "cpu_after_gpu", "double_buffer", "stream_file", "frozen_graph", "condition_loop", "device_loop", "parallel_loop",
         "completion_callback", "failures", "cancel", "async_file", "batched_copies", "copy_list", "pinned_memory", "memory_limit", "stream_ordered_memory", "partitions",
         "shares", "profile_timeline", "launch_options", "early_start", "own_module", "existing_cuda_code", "cpp_lambdas", "two_devices"]
WITHOUT_CONTEXT = ["order_with_edges", "condition_loop", "parallel_loop", "failures", "cancel", "async_file"]  # $GANTRY_PROFILE begins with a context
RECORDER = """#include <gantry/profile.h>
#include <stdlib.h>
static gantry_profile *profile;
__attribute__((constructor)) static void begin(void)
{
    gantry_profile_options options = GANTRY_PROFILE_OPTIONS_INIT;
    options.path = getenv("RECORD_INTO");
    if (gantry_profile_start(&options, &profile) != GANTRY_OK)
        abort();
}
__attribute__((destructor)) static void end(void) { gantry_profile_stop(profile, NULL); }
"""
TRIES = 100
WIDTH, ROW, LEFT, MOST = 760, 26, 120, 60
COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#edc948", "#e15759", "#76b7b2", "#9c755f"]


def row_of(track):
    """What a picture calls a track of a recording; None: it is not in it."""
    if "/ stream " in track:
        return " ".join([track.split(":")[0], *track.split(" / ")[1:]])
    if track.split(" ")[0] == "GD":
        return "launching"
    return "CPU" if track.startswith(("thread ", "gantry worker ")) else None


def slices_of(recording):
    """[(row, label, begin, end)] of the first tasks, in order of their begin."""
    tracks = {event["tid"]: event["args"]["name"] for event in recording["traceEvents"]
              if event["ph"] == "M" and event["name"] == "thread_name"}
    found = []
    for event in recording["traceEvents"]:
        row = row_of(tracks.get(event.get("tid"), "")) if event["ph"] == "X" else None
        if row and not event["name"].startswith(("submit ", "GD ", "complete ", "release ", "wait")):
            found.append((row, event["name"], event["ts"], event["ts"] + event["dur"]))
    if len({row.split(" ")[1] for row, *_ in found if row.startswith("GPU ")}) == 1:  # there is one GPU: it needs no name
        found = [(row.split(" ", 2)[2] if row.startswith("GPU ") else row, *rest) for row, *rest in found]
    on_device = {label for row, label, _, _ in found if "stream" in row}
    found = [("launching" if row == "CPU" and label in on_device else row, label, begin, end) for row, label, begin, end in found]
    return sorted(found, key=lambda piece: piece[2])[:MOST]


def shows_the_gpu(slices):
    """Is each label that was launched on a stream, too?  What no CPU task waits for may be missing in a recording."""
    on_stream = {label for row, label, *_ in slices if "stream" in row}
    return all(label in on_stream or label.startswith(("event for", "after GPU")) for row, label, *_ in slices if row == "launching")


def in_lanes(slices):
    """The slices, with a further row where some of a row are there at the same time: [(row, lane, label, begin, end)]."""
    ends, placed = {}, []
    for row, label, begin, end in slices:
        lanes = ends.setdefault(row, [])
        lane = next((i for i, last in enumerate(lanes) if last <= begin), len(lanes))
        lanes[lane:lane + 1] = [end]
        placed.append((row, lane, label, begin, end))
    return placed


def picture(slices):
    """The text of an SVG file: a row for each track, a step to the right for each begin and end."""
    slices = in_lanes(slices)
    steps = {time: index for index, time in enumerate(sorted({time for piece in slices for time in piece[3:]}))}
    order = {"launching": "0", "CPU": "2"}
    rows = sorted({piece[:2] for piece in slices}, key=lambda row: (order.get(row[0], "1" + row[0]), row[1]))
    labels = list(dict.fromkeys(piece[2] for piece in slices))
    scale, height = (WIDTH - LEFT - 8) / max(1, len(steps) - 1), ROW * (len(rows) + 1) + 8
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
             '<style>text{fill:#333}line{stroke:#bbb}@media(prefers-color-scheme:dark){text{fill:#ddd}line{stroke:#555}}</style>']
    for index, row in enumerate(rows):
        y = ROW * index + 4
        lines.append(f'<text x="4" y="{y + 15}">{row[0] if row[1] == 0 else ""}</text>'
                     f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y + ROW - 3}" y2="{y + ROW - 3}"/>')
        for _, _, label, begin, end in (piece for piece in slices if piece[:2] == row):
            x, wide = LEFT + scale * steps[begin], max(3, scale * (steps[end] - steps[begin]) - 1)
            colour = COLOURS[labels.index(label) % len(COLOURS)]
            lines.append(f'<rect x="{x:.0f}" y="{y}" width="{wide:.0f}" height="{ROW - 6}" rx="2" fill="{colour}">'
                         f"<title>{html.escape(label)}</title></rect>")
    x = LEFT
    for index, label in enumerate(labels):
        y = ROW * len(rows) + 12
        lines.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLOURS[index % len(COLOURS)]}"/>'
                     f'<text x="{x + 14}" y="{y + 10}">{html.escape(label)}</text>')
        x += 30 + 7 * len(label)
    return "\n".join([*lines, "</svg>", ""])


def build_recorder(program, folder):
    """A library that records a program from its begin to its end, linked with the one that the program uses."""
    used = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    library = next(line.split()[2] for line in used.splitlines() if line.strip().startswith("libgantry.so"))
    source, recorder = folder / "recorder.c", folder / "recorder.so"
    source.write_text(RECORDER)
    subprocess.run(["cc", "-shared", "-fPIC", "-I", SOURCE / "include", source, library, "-o", recorder], check=True)
    return recorder


def main(programs, gantry, out=SOURCE / "examples/images"):
    out = pathlib.Path(out)
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        recording = folder / "run.pftrace"
        for name in NAMES:
            program, how = pathlib.Path(programs, name).resolve(), {"GANTRY_PROFILE": str(recording)}
            if name in WITHOUT_CONTEXT:
                how = {"LD_PRELOAD": str(build_recorder(program, folder)), "RECORD_INTO": str(recording)}
            elif name == "profile_timeline":
                how = {}  # it records itself, into this file
            for _ in range(TRIES):
                subprocess.run([program], check=True, stdout=subprocess.DEVNULL, cwd=folder, env={**os.environ, "GANTRY_DRIVER": "emulated", **how})
                shown = subprocess.run([gantry, "report", "trace", recording, "--format", "json"], check=True, stdout=subprocess.PIPE)
                recording.unlink()
                slices = slices_of(json.loads(shown.stdout))
                if shows_the_gpu(slices):
                    break
            else:
                raise SystemExit(f"{name}: work on the GPU is missing in {TRIES} recordings")
            (out / f"{name}.svg").write_text(picture(slices))
            print(out / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
