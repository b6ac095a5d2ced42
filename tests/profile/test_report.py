#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_report.py MAKE_TRACE GANTRY: `gantry report trace` on a recording whose contents are known."""
import collections
import fcntl
import gzip
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "page"))
import page_data  # noqa: E402

MAKE_TRACE, GANTRY = sys.argv[1:3]
EXPECTED = []  # (track, category, name, begin, end, id)


def setUpModule():
    global FOLDER, TRACE
    FOLDER = tempfile.mkdtemp()
    TRACE = os.path.join(FOLDER, "x.pftrace")
    printed = subprocess.run([MAKE_TRACE, TRACE], check=True, capture_output=True, text=True).stdout
    for line in printed.splitlines():
        track, category, name, begin, end, number = line.split("\t")
        EXPECTED.append((track, category, name, int(begin), int(end), int(number)))


def tearDownModule():
    shutil.rmtree(FOLDER)


def gantry(*arguments, status=0):
    run = subprocess.run([GANTRY, "report", *arguments], capture_output=True, text=True)
    assert run.returncode == status, run.stderr
    return run.stdout if status == 0 else run.stderr


def number(value):
    """A varint."""
    encoded = b""
    while value > 0x7f:
        encoded += bytes([value & 0x7f | 0x80])
        value >>= 7
    return encoded + bytes([value])


def field(key, value):
    """A field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value


def packets(*list_of_fields):
    """A Perfetto trace: each packet is a list of (key, value)."""
    return b"".join(field(1, b"".join(field(*one) for one in fields)) for fields in list_of_fields)


def process(name):
    """The first track of a trace, its process."""
    return [(10, 1), (60, field(1, 1) + field(3, field(1, 77) + field(6, name)))]


def slice_of(begin, end):
    return [[(8, begin), (10, 1), (11, field(9, 1) + field(11, 1))], [(8, end), (10, 1), (11, field(9, 2) + field(11, 1))]]


def union(intervals):
    """The length of the union."""
    total, reached = 0, 0
    for begin, end in sorted(intervals):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def times(category, track=None):
    return [(b, e) for t, c, _, b, e, _ in EXPECTED if c == category and track in (None, t)]


def read_all(terminal):
    """What a program wrote to a terminal that is closed by now: it comes in pieces, and then an error."""
    text = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            text += piece
    except OSError:
        pass
    return text.decode()


class Report(unittest.TestCase):
    def test_json_report_says_what_was_recorded(self):
        report = json.loads(gantry("trace", TRACE, "--json"))
        self.assertEqual(report["batches"], 300)
        self.assertEqual(report["launches"], 3000)
        self.assertEqual(report["cpu_tasks"], len(times("task")))
        self.assertEqual(report["gpu"]["tasks"], 54)
        self.assertEqual(report["gpu"]["busy_ns"], union(times("gpu")))
        self.assertEqual([report["gpu"][key] for key in ("batches", "batch_ns", "longest_batch_ns", "longest_batch")],
                         [2, 200 + 400, 400, 32])
        self.assertRegex(gantry("trace", TRACE),
                         r"(?m)^GPU batches +0\.000 ms on average, 2 of them; the longest 0\.000 ms, number 32$")
        for stream in report["streams"]:
            self.assertEqual(stream["busy_ns"], union(times("gpu", stream["name"])))
        self.assertEqual(report["ctas"], {"recorded": 1600, "lost": 0, "taken": 0, "alignment_ns": report["ctas"]["alignment_ns"],
                                          "sm_alignment_ns": 0, "tick_ns": 0, "largest_shift_ns": 0})
        self.assertGreaterEqual(report["ctas"]["alignment_ns"], 50)
        self.assertEqual(report["sms"]["count"], 5)
        self.assertEqual(report["lost"], {"slices": 0, "ctas": 0, "gpu_unfinished": 0})
        busy = [union(times("", f"SM {sm:03}")) for sm in range(5)]
        self.assertEqual(report["sms"]["busy_sum_ns"], sum(busy))
        self.assertEqual((report["sms"]["least_ns"], report["sms"]["most_ns"]), (min(busy), max(busy)))
        self.assertEqual([(s["sm"], s["busy_ns"]) for s in report["sms"]["each"]], list(enumerate(busy)))
        self.assertEqual([(p["name"], p["gpu"], p["busy_ns"], p["streams"], p["tasks"]) for p in report["partitions"]],
                         [("", "GPU 0: example", union(times("gpu")), 3, 54)])

    def test_batched_copies_are_added_up(self):
        self.assertEqual(json.loads(gantry("trace", TRACE, "--json"))["copies"],
                         {"launches": 3, "count": 6, "bytes_to_device": 6000000, "bytes_to_host": 0,
                          "bytes_on_device": 500000})
        self.assertRegex(gantry("trace", TRACE), r"(?m)^batched copies +6 in 3 launches: 6\.000 MB to the device, "
                         r"0\.000 MB to the host, 0\.500 MB on the device$")

    def test_ranges_inside_blocks_are_added_up(self):
        report = json.loads(gantry("trace", TRACE, "--json"))
        expected = collections.defaultdict(list)
        for _, category, name, begin, end, _ in EXPECTED:
            if category == "range":
                expected[name].append(end - begin)
        self.assertEqual(set(expected), {"load", "compute", "range 2"})
        self.assertEqual(
            report["ranges"],
            [{"kernel": "odd", "name": name, "count": len(ns), "total_ns": sum(ns), "least_ns": min(ns), "most_ns": max(ns)}
             for name, ns in sorted(expected.items(), key=lambda item: -sum(item[1]))])
        self.assertEqual(report["ranges_lost"], {"count": 7, "of": [{"first": "odd: compute", "count": 7}]})
        text = gantry("trace", TRACE)
        self.assertRegex(text, r"(?m)^odd: load +24 +0\.003 +0\.125 +0\.100 +0\.150$")
        self.assertRegex(text, r"(?m)^odd: compute +7 lost, this one first: its block had no room for more$")
        self.assertIn("7 ranges were lost in all.", text)

    def test_json_report_lists_the_kernels(self):
        report = json.loads(gantry("trace", TRACE, "--json"))
        self.assertFalse(report["kernels_are_tasks"])
        found = {k["name"]: (k["count"], k["total_ns"], k["ctas"]) for k in report["kernels"]}
        for name in ("even", "odd"):
            durations = [e - b for _, c, n, b, e, _ in EXPECTED if c == "kernel" and n == name]
            self.assertEqual(found[name], (2, sum(durations), 800))

    def test_tasks_without_recorded_blocks_are_listed_too(self):
        report = json.loads(gantry("trace", TRACE, "--json"))
        expected = collections.defaultdict(list)
        for _, category, name, begin, end, _ in EXPECTED:
            if category == "gpu":
                expected[name].append(end - begin)
        self.assertEqual({label["name"]: (label["count"], label["total_ns"]) for label in report["gpu_labels"]},
                         {name: (len(ns), sum(ns)) for name, ns in expected.items()})
        self.assertEqual(report["gpu_labels_left"], 0)
        self.assertRegex(gantry("trace", TRACE), r"(?m)^All GPU tasks by label, [^\n]+:\n\nGPU task +count [^\n]+\nkernel +50 [^\n]+\nlate +4 ")

    def test_gaps_add_up(self):
        report = json.loads(gantry("trace", TRACE, "--json"))
        gaps = report["gaps"]
        self.assertEqual(gaps["total_ns"], report["gpu"]["span_ns"] - report["gpu"]["busy_ns"])
        causes = [gaps[c] for c in ("host_task", "memory", "dispatcher", "nothing_ready")]
        self.assertEqual(sum(c["ns"] for c in causes), gaps["total_ns"])
        self.assertEqual(sum(c["count"] for c in causes), gaps["count"])

    def test_gaps_have_the_causes_that_were_made(self):
        gaps = json.loads(gantry("trace", TRACE, "--json"))["gaps"]
        self.assertEqual(gaps["memory"], {"count": 1, "ns": 800})
        self.assertEqual(gaps["host_task"], {"count": 1, "ns": 2000})
        self.assertEqual(gaps["host_tasks"], [{"name": "slow", "count": 1, "ns": 2000}])
        self.assertEqual(gaps["nothing_ready"], {"count": 1, "ns": 500})
        self.assertEqual(gaps["dispatcher"]["count"], 1)  # while the batches went on

    def test_waterfall_has_every_stage_on_its_place(self):
        waterfall = json.loads(gantry("trace", TRACE, "--waterfall", "--json"))
        stages = {(s["partition"], s["stage"]): s for s in waterfall["stages"]}
        slow = [(b, e) for _, c, n, b, e, _ in EXPECTED if n == "slow"][0]
        stage = stages["host", "slow"]
        self.assertEqual((stage["count"], stage["total_ns"]), (1, slow[1] - slow[0]))
        self.assertEqual(sum(stage["busy_ns"]), slow[1] - slow[0])
        kernels = stages["", "kernel"]
        self.assertEqual((kernels["count"], kernels["gpu"]), (50, "GPU 0: example"))
        self.assertEqual(kernels["end_ns"] - kernels["begin_ns"], union(times("gpu")) - 400)
        self.assertEqual(len(kernels["busy_ns"]), waterfall["cells"])
        text = gantry("trace", TRACE, "--waterfall")
        self.assertRegex(text, r"late +4 ")
        self.assertIn("GPU 0: example", text)
        self.assertIn("do not go together", gantry("trace", TRACE, "--waterfall", "--diff", TRACE, status=2))

    def test_a_deflated_recording_says_the_same(self):
        path = os.path.join(FOLDER, "deflated")
        subprocess.run([MAKE_TRACE, path], check=True, capture_output=True,
                       env={**os.environ, "MAKE_TRACE_COMPRESS": "1"})
        with open(path, "rb") as file:
            if not file.read(8).hex().startswith("0a") or os.path.getsize(path) > os.path.getsize(TRACE) / 2:
                self.skipTest("this build has no zlib")
        report = json.loads(gantry("trace", path, "--json"))
        plain = json.loads(gantry("trace", TRACE, "--json"))
        for key in ("cpu_tasks", "batches", "launches", "launch_ns", "gpu", "partitions", "streams", "gaps", "kernels"):
            self.assertEqual(report[key], plain[key], key)

    def test_text_report_is_for_people(self):
        text = gantry("trace", TRACE)
        # First what one wants to know, then the kernels, then the rest.
        self.assertRegex(text, r"^[^\n]+ ms\n\nThe GPU was busy for [0-9.]+ % of the [0-9.]+ ms between its first task and its last.\n"
                         r"It was idle for [0-9.]+ ms\.  The main cause: [a-z ]+, [0-9.]+ ms( \(most for [^\n]+\))?\.\n\nkernel +count ")
        self.assertLess(text.index("even "), text.index("GPU busy "))
        self.assertLess(text.index("idle gaps "), text.index("CPU tasks "))
        self.assertIn("0 slices, 0 of 1600 blocks", text)
        self.assertRegex(text, r"even +2 ")
        self.assertIn("5 seen", text)

    def test_blocks_are_counted_of_kernels_alone(self):
        text = gantry("trace", TRACE)
        self.assertRegex(text, r"(?m)^kernel .* blocks$")
        self.assertRegex(text, r"(?m)^GPU task +count +total ms +mean us +least us +most us$")

    def test_missing_blocks_come_first(self):
        self.assertNotIn("are missing", gantry("trace", TRACE))
        path = os.path.join(FOLDER, "lost.pftrace")
        subprocess.run([MAKE_TRACE, path], check=True, capture_output=True, env={**os.environ, "MAKE_TRACE_LOSE": "1"})
        self.assertRegex(gantry("trace", path), r"^[^\n]+ ms\n\n16 of 1616 blocks are missing: give the recording more buffers "
                         r"\(GANTRY_PROFILE_OPTIONS=buffers=\.\.\., options\.buffers\)\.\nThe GPU was busy ")

    def test_blocks_that_were_taken_over_are_not_missing(self):
        path = os.path.join(FOLDER, "taken.pftrace")
        subprocess.run([MAKE_TRACE, path], check=True, capture_output=True, env={**os.environ, "MAKE_TRACE_TAKE": "1"})
        report, text = json.loads(gantry("trace", path, "--json")), gantry("trace", path)
        counts = report["ctas"]
        self.assertEqual((counts["recorded"] + counts["taken"], counts["lost"]), (1600, 0))
        self.assertGreater(counts["taken"], 0)
        self.assertNotIn("are missing", text)
        self.assertRegex(text, rf"(?m)^taken over +{counts['taken']} blocks, by blocks of {counts['recorded']} that steal$")

    def test_difference_with_itself_is_none(self):
        rows = gantry("trace", TRACE, "--diff", TRACE).splitlines()[1:]
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertRegex(row, r"\+0\.0 %$")

    def test_difference_as_json_is_one_document(self):
        one = json.loads(gantry("trace", TRACE, "--json"))
        two = json.loads(gantry("trace", TRACE, "--diff", TRACE, "--json"))
        self.assertEqual(two, {"before": one, "after": one})

    def test_the_json_report_is_what_the_documents_say(self):
        report = json.loads(gantry("trace", TRACE, "--json"))
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "guides", "profiling.md"), encoding="utf-8") as file:
            table = file.read().split("## The report as JSON")[1].split("\n## ")[0]
        told = {".".join(filter(None, (place, member)))
                for places, members in re.findall(r"^\| (`.*`|) ?\| (`.*?`) \|", table, re.M)
                for place in re.findall(r"`(.*?)`", places) or [""] for member in re.findall(r"`(\w+)`", members)}

        def keys_of(value, prefix):
            if isinstance(value, list):
                return {key for inner in value for key in keys_of(inner, prefix + "[]")}
            if not isinstance(value, dict):
                return {prefix}
            return {key for name, inner in value.items() for key in keys_of(inner, f"{prefix}.{name}".lstrip("."))}
        missing = {"sms.each[].alignment_ns", "gpus[].gaps.others[].name", "gpus[].gaps.others[].ns",
                   *(key for key in told if re.match(r"(tenants|held_back)\[\]", key))}  # nothing in this recording states these
        self.assertEqual(keys_of(report, ""), told - missing)

    def test_a_recording_whose_program_was_killed_is_read(self):
        """It hangs; when all that it recorded has come into the file, it is killed."""
        whole = json.loads(gantry("trace", TRACE, "--json"))
        same = ("cpu_tasks", "batches", "launches", "kernels")
        for environment in ({"MAKE_TRACE_ENCODERS": "3"}, {"MAKE_TRACE_COMPRESS": "1"}):
            path = os.path.join(FOLDER, "killed" + next(iter(environment)) + ".pftrace")  # a file of its own: none is there before
            process = subprocess.Popen([MAKE_TRACE, path], stdout=subprocess.DEVNULL,
                                       env={**os.environ, **environment, "MAKE_TRACE_HANG": "1"})
            report = {}
            while report.get("ctas", {}).get("recorded") != 1600 or any(report[k] != whole[k] for k in same[:3]):
                run = subprocess.run([GANTRY, "report", "trace", path, "--json"], capture_output=True, text=True)
                report = json.loads(run.stdout) if run.returncode == 0 else {}
                self.assertIsNone(process.poll())
            process.kill()
            process.wait()
            run = subprocess.run([GANTRY, "report", "trace", path, "--json"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(f"{path}: the recording was not ended: its program was killed, or still runs", run.stderr)
            report = json.loads(run.stdout)
            self.assertIs(report["complete"], False)
            for key in same[:3]:
                self.assertEqual(report[key], whole[key], key)
            self.assertEqual(report["gpu"]["tasks"], whole["gpu"]["tasks"])
            self.assertIn("the end is missing", gantry("trace", path))
            gantry("trace", path, "--format", "json", "-o", os.path.join(FOLDER, "killed.json"))

    def test_chrome_json_has_every_slice(self):
        path = os.path.join(FOLDER, "x.json")
        gantry("trace", TRACE, "--format", "json", "-o", path)
        with open(path, encoding="utf-8") as file:
            events = json.load(file, parse_float=str)["traceEvents"]
        names = {e["tid"]: e["args"]["name"].split(" / ")[-1] for e in events if e.get("name") == "thread_name"}
        self.assertNotIn(0, [e["tid"] for e in events if e["ph"] == "X"])

        def ns(text):
            whole, part = text.split(".")
            return int(whole) * 1000 + int(part)
        found = collections.Counter(
            (names[e["tid"]], "" if e["cat"] == "cta" else e["cat"], e["name"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]))
            for e in events if e["ph"] == "X")
        expected = collections.Counter(e[:5] for e in EXPECTED)
        self.assertEqual(expected - found, collections.Counter())
        self.assertEqual(sum(found.values()), len(EXPECTED) + 1)
        self.assertEqual([sum(e["ph"] == kind for e in events) for kind in "stf"], [4, 0, 4])
        self.assertTrue(any(e["ph"] == "C" and e["name"] == "resident CTAs" for e in events))

    def test_page_holds_everything_and_needs_nothing(self):
        page = gantry("trace", TRACE, "--format", "html")
        self.assertNotRegex(page, r"https?://|src=|@import|url\(|<link")
        data, = page_data.recordings(page)
        self.assertEqual(len(data["slices"]), len(EXPECTED) + 1)
        tracks, names = data["tracks"], data["names"]
        first = min(e[3] for e in EXPECTED)
        found = collections.Counter((tracks[track][0], "" if tracks[track][2] == 4 else names[category], names[name], begin,
                                     begin + duration, number) for track, name, begin, duration, number, category, _ in data["slices"])
        expected = collections.Counter((t, c, n, b - first, e - first, i) for t, c, n, b, e, i in EXPECTED)
        self.assertEqual(expected - found, collections.Counter())
        self.assertEqual([(cause, task) for _, _, cause, task in data["gaps"]],
                         [("dispatcher busy", ""), ("nothing ready", ""), ("waiting for memory", ""), ("waiting for a host task", "slow")])
        self.assertGreater(len(data["counters"]["resident CTAs"]), 0)
        self.assertEqual((data["complete"], data["emulated"], data["left"]), (True, False, 0))
        flows = collections.Counter(flow for *_, slice_flows in data["slices"] for flow in slice_flows)
        self.assertEqual(sorted(flows.values()), [2, 2, 2, 2])  # from four launches to their kernels

    def test_a_page_takes_two_recordings(self):
        other = os.path.join(FOLDER, "other.pftrace")
        shutil.copy(TRACE, other)
        page = gantry("trace", TRACE, other, "--format", "html")
        first, second = page_data.recordings(page)
        self.assertEqual((first["file"], second["file"]), ("x.pftrace", "other.pftrace"))
        self.assertEqual(first["slices"], second["slices"])
        self.assertIn("a second recording goes with --format html", gantry("trace", TRACE, other, status=2))
        self.assertIn("is a recording to be read", gantry("trace", TRACE, other, "--format", "html", "-o", other, status=2))

    def test_other_files_are_refused(self):
        path = os.path.join(FOLDER, "other")
        with open(path, "wb") as file:
            file.write(b"\x7fELF, or whatever")
        self.assertRegex(gantry("trace", path, status=1), ": no Gantry recording$")
        for text, why in (("int main(void) { return 0; }\n" * 9, "no Gantry recording$"),
                          ("\n/* begins like a packet */\n" * 9, "no Gantry recording: "),
                          ('{"gantry_heap": 1, "kinds": []}', "this looks like a heap: gantry report heap FILE")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.assertRegex(gantry("trace", path, status=1), why)
        for content, why in ((gzip.compress(b"x" * 100), "compressed by gzip; unpack it first: gunzip --keep FILE$"),
                             (b"\x28\xb5\x2f\xfd whatever", "compressed by zstd; unpack it first: unzstd FILE$"),
                             (b' {"displayTimeUnit": "ms", "traceEvents": []}', "this looks like a trace in Chrome's JSON format"),
                             (b'[\n{"name": "a", "ph": "X", "ts": 1}]', "this looks like a trace in Chrome's JSON format"),
                             (b'{"other": 1}', "no Gantry recording$")):
            with open(path, "wb") as file:
                file.write(content)
            self.assertRegex(gantry("trace", path, status=1), why)
        self.assertIn(f"this looks like a recording: gantry report trace {TRACE}", gantry("heap", TRACE, status=1))
        with open(TRACE, "rb") as file:
            whole = file.read()
        for cut in (3, 12345, len(whole) // 2 + 1, len(whole) - 20000):
            with open(path, "wb") as file:
                file.write(whole[:-cut])
            run = subprocess.run([GANTRY, "report", "trace", path, "--json"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stderr, "the recording was not ended|bytes are not read")
            self.assertIs(json.loads(run.stdout)["complete"], False)
        with open(path, "wb") as file:
            file.write(whole[:-3])
        run = subprocess.run([GANTRY, "report", "trace", path], capture_output=True, text=True)
        self.assertRegex(run.stderr, r"the file ends within a packet, [1-9][0-9]* bytes are not read")
        for nothing, why in ((b"", "empty, nothing was recorded"), (whole[:5], "ends within a packet")):
            with open(path, "wb") as file:
                file.write(nothing)
            self.assertIn(why, gantry("trace", path, status=1))
        self.assertIn("No such file", gantry("trace", os.path.join(FOLDER, "none"), status=1))
        self.assertIn("'pdf'", gantry("trace", TRACE, "--format", "pdf", status=2))
        self.assertIn("say", gantry("trace", status=2))
        for options in (["--json"], ["--waterfall"], ["--diff", TRACE]):
            self.assertIn("--format goes with", gantry("trace", TRACE, "--format", "html", *options, status=2))

    def test_the_ending_of_the_output_says_the_format(self):
        for ending, format in ((".html", "html"), (".json", "json"), (".txt", "text"), ("json", "text")):
            path = os.path.join(FOLDER, "ended" + ending)
            gantry("trace", TRACE, "-o", path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), gantry("trace", TRACE, "--format", format), ending)
            gantry("trace", TRACE, "-o", path, "--format", "text")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), gantry("trace", TRACE))
        path = os.path.join(FOLDER, "ended.json")
        gantry("trace", TRACE, "--json", "-o", path)  # what is asked for otherwise stays the report
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["batches"], 300)

    def test_everything_goes_where_it_is_told(self):
        path = os.path.join(FOLDER, "told")
        for options in ([], ["--json"], ["--waterfall"], ["--diff", TRACE], ["--format", "html"], ["--format", "json"]):
            shown = gantry("trace", TRACE, *options)
            self.assertEqual(gantry("trace", TRACE, *options, "-o", path), "")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), shown, options)
        self.assertRegex(gantry("trace", TRACE, "-o", os.path.join(FOLDER, "no", "where"), status=1), "where: No such file")
        self.assertEqual(subprocess.run([GANTRY, "report", "trace", TRACE, "-o", "/dev/stdout"], capture_output=True,
                                        text=True).stdout, gantry("trace", TRACE))

    def test_traces_of_other_programs_are_refused(self):
        path = os.path.join(FOLDER, "foreign.pftrace")
        for content in (packets(process(b"chrome"), *slice_of(100, 300)),                   # as ours, of another process
                        packets(process(b"chrome"), *slice_of(100, 300))[:-4],              # cut off: not one that was killed
                        packets([(8, 5), (10, 1), (1, b"ftrace")], [(8, 9), (1, b"more")]),  # nothing that is read
                        b"\n" + b"\x04" + b"\x0a\x02ab" + b"\n\x7fxyz"):                    # no trace at all
            with open(path, "wb") as file:
                file.write(content)
            self.assertRegex(gantry("trace", path, status=1), ": no Gantry recording: another program wrote it$")
        with open(path, "wb") as file:  # and the same as ours
            file.write(packets(process(b"gantry"), *slice_of(100, 300)))
        self.assertIn("foreign.pftrace: 0.000 ms", gantry("trace", path))

    def test_an_end_before_its_begin_is_told(self):
        path = os.path.join(FOLDER, "backwards.pftrace")
        stage = [(8, 500), (10, 1), (53, field(2, 2**64 - 200) + field(13, 65536) + field(14, 1))]
        queue = [(10, 1), (12, field(24, field(1, 65536) + field(2, b"stream 0") + field(3, b"GPU 0")))]
        for content, why in ((slice_of(300, 100), "a slice ends before it begins"), ([queue, stage], "a GPU task ends before it begins")):
            with open(path, "wb") as file:
                file.write(packets(process(b"gantry"), *content))
            self.assertRegex(gantry("trace", path, status=1), f": {why}$")

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk_is_told_by_its_name(self):
        for form in (["--format", "html"], ["--json"], []):  # the first is long: a write in its midst fails
            self.assertEqual(gantry("trace", TRACE, *form, "--output", "/dev/full", status=1),
                             "gantry: error: /dev/full: No space left on device\n")
            with open("/dev/full", "w") as full:
                run = subprocess.run([GANTRY, "report", "trace", TRACE, *form], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual((run.returncode, run.stderr), (1, "gantry: error: standard output: No space left on device\n"))

    def test_no_file_is_lost(self):
        folder = os.path.join(FOLDER, "kept")
        os.mkdir(folder)
        path, link = os.path.join(folder, "out"), os.path.join(folder, "link")
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        os.chmod(path, 0o640)
        os.symlink("out", link)
        recording = os.path.join(folder, "recording")
        shutil.copy(TRACE, recording)
        for arguments in ([recording, "-o", recording], [TRACE, "--diff", recording, "-o", recording]):
            self.assertIn(f"{recording} is a recording to be read", gantry("trace", *arguments, status=2))
        with open(recording, "rb") as file, open(TRACE, "rb") as same:
            self.assertEqual(file.read(), same.read())
        for options in ([], ["--format", "json"], ["--format", "html"], ["--json"], ["--waterfall"]):
            gantry("trace", os.path.join(folder, "none"), *options, "-o", link, status=1)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "precious")
        gantry("trace", TRACE, "-o", link)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), gantry("trace", TRACE))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o640)
        self.assertEqual(sorted(os.listdir(folder)), ["link", "out", "recording"])
        self.assertEqual(os.readlink(link), "out")

    def test_a_pipe_is_not_waited_for(self):
        pipe = os.path.join(FOLDER, "pipe")
        os.mkfifo(pipe)
        self.assertIn("pipe: no regular file", gantry("trace", pipe, status=1))

    def test_labels_cannot_steer_a_terminal(self):
        path = os.path.join(FOLDER, "coloured")
        with open(TRACE, "rb") as file, open(path, "wb") as other:
            other.write(file.read().replace(b"slow", b"\x1b[3m").replace(b"even", b"\xc2\x9b\xffm").replace(b"late", b"a\x7fbc"))
        for options in ([], ["--waterfall"], ["--diff", TRACE]):
            text = subprocess.run([GANTRY, "report", "trace", path, *options], capture_output=True, check=True).stdout
            self.assertRegex(text.replace(b"\n", b""), rb"^[\x20-\x7e]*$")
        self.assertIn("\\x1b[3m", gantry("trace", path))
        self.assertIn("\\xc2\\x9b\\xffm", gantry("trace", path))
        self.assertIn("a\\x7fbc", gantry("trace", path, "--waterfall"))

    def test_what_was_not_there_before_is_new(self):
        path = os.path.join(FOLDER, "renamed")
        with open(TRACE, "rb") as file, open(path, "wb") as other:
            other.write(file.read().replace(b"even", b"ever"))
        text = gantry("trace", path, "--diff", TRACE)
        self.assertRegex(text, r"(?m)^ever +0\.000 +[0-9.]+ +new$")
        self.assertRegex(text, r"(?m)^even +[0-9.]+ +0\.000 +-100\.0 %$")

    def test_a_waterfall_is_as_wide_as_the_terminal(self):
        lines = gantry("trace", TRACE, "--waterfall").splitlines()
        self.assertEqual({len(line) for line in lines if line.endswith("|")}, {80})
        self.assertLessEqual(max(map(len, lines)), 80)
        for columns, width in ((40, 80), (90, 90), (200, 122)):
            try:
                ours, theirs = pty.openpty()
            except OSError as error:  # no devpts
                self.skipTest(f"no terminal: {error}")
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            subprocess.run([GANTRY, "report", "trace", TRACE, "--waterfall"], stdout=theirs, check=True)
            os.close(theirs)
            rows = [line for line in read_all(ours).split("\r\n") if line.endswith("|")]
            os.close(ours)
            self.assertEqual({len(row) for row in rows}, {width})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
