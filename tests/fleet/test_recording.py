#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_recording.py GANTRY: a recording of two devices tells them apart, in the trace, the report and the page."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "page"))
import page_data  # noqa: E402

GANTRY = sys.argv[1]
STEPS = 40
Slice = collections.namedtuple("Slice", "track name begin category flows")


def run(*arguments, **variables):
    environment = {**os.environ, "GANTRY_EMU_DEVICES": "2", **variables}
    done = subprocess.run([GANTRY, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def setUpModule():
    global FOLDER, TRACES
    FOLDER, TRACES = tempfile.TemporaryDirectory(), {}
    for mode in "streams", "graphs":
        TRACES[mode] = os.path.join(FOLDER.name, mode + ".pftrace")
        run("run", "stencil", "--driver", "emulated", "--runs", "1", "--steps", str(STEPS), "--submission", mode,
            GANTRY_PROFILE=TRACES[mode])


def tearDownModule():
    FOLDER.cleanup()


class Recording(unittest.TestCase):
    def test_the_report_has_each_device(self):
        for mode, trace in TRACES.items():
            report = json.loads(run("report", "trace", trace, "--json"))
            gpus = {g["name"].split(":")[0]: g for g in report["gpus"]}
            self.assertEqual(set(gpus), {"GPU 0", "GPU 1"}, mode)
            self.assertEqual(sum(g["tasks"] for g in gpus.values()), report["gpu"]["tasks"])
            self.assertEqual(max(g["alignment_ns"] for g in gpus.values()), report["gpu_alignment_ns"])
            for name, gpu in gpus.items():
                gaps = gpu["gaps"]
                causes = [gaps[c] for c in ("host_task", "memory", "dispatcher", "nothing_ready", "other_gpu")]
                self.assertGreater(gpu["alignment_ns"], 0)
                self.assertEqual(sum(c["count"] for c in causes), gaps["count"])
                self.assertEqual(sum(c["ns"] for c in causes), gaps["total_ns"])
                self.assertEqual(sum(o["ns"] for o in gaps["others"]), gaps["other_gpu"]["ns"])
                self.assertTrue(all(not o["name"].startswith(name + ":") for o in gaps["others"]))

    def test_devices_are_in_order_whichever_began_first(self):
        trace, path = os.path.join(FOLDER.name, "many.pftrace"), os.path.join(FOLDER.name, "many.html")
        run("run", "stencil", "--driver", "emulated", "--runs", "1", "--steps", "4", GANTRY_EMU_DEVICES="12", GANTRY_PROFILE=trace)
        report = json.loads(run("report", "trace", trace, "--json"))
        for part, name in ("gpus", "name"), ("streams", "gpu"), ("partitions", "gpu"):
            numbers = [int(item[name].split(":")[0].removeprefix("GPU ")) for item in report[part]]
            self.assertEqual(numbers, sorted(numbers), part)
            self.assertEqual(set(numbers), set(range(12)), part)

    def test_the_text_names_the_device_that_was_waited_for(self):
        text = run("report", "trace", TRACES["streams"])
        report = json.loads(run("report", "trace", TRACES["streams"], "--json"))
        self.assertIn("GPU by GPU\n", text)
        waited = {o["name"].split(":")[0] for g in report["gpus"] for o in g["gaps"]["others"]}
        for name in waited:
            self.assertIn(f"    waiting for {name} ", text)
        self.assertEqual(text.count("ns of the host's"), 3)  # of each, and of all

    def test_arrows_lead_from_device_to_device(self):
        path = os.path.join(FOLDER.name, "x.html")
        run("report", "trace", TRACES["streams"], "--format", "html", "-o", path)
        with open(path, encoding="utf-8") as page:
            recording, = page_data.recordings(page.read())
        names = recording["names"]
        slices = [Slice(t, names[n], b, names[c], set(f)) for t, n, b, _, _, c, f in recording["slices"]]
        across = [s for s in slices if s.category == "across"]
        recorded = [s for s in across if s.name == "event for other GPUs"]
        waits = [s for s in across if s.name.startswith("after GPU ")]
        self.assertEqual(len(recorded) + len(waits), len(across))
        self.assertGreater(len(waits), 0)
        flows = {f: s for s in recorded for f in s.flows}
        threads = {"after GPU 0": "GD 1", "after GPU 1": "GD"}
        launches = {f for s in slices if s.category == "launch" for f in s.flows}
        for wait in waits:
            self.assertEqual(recording["tracks"][wait.track][0], threads[wait.name])
            sources = [flows[f] for f in wait.flows if f in flows]
            self.assertEqual(len(sources), 1, "one event")
            self.assertNotEqual(sources[0].track, wait.track)
            self.assertLessEqual(sources[0].begin, wait.begin)
            self.assertTrue(wait.flows & launches, "the launch of what waits")
            self.assertTrue(sources[0].flows & launches, "the launch that is waited for")
        self.assertEqual({name.split(":")[0] for name, *_ in recording["tracks"] if name.startswith("GPU ")},
                         {"GPU 0", "GPU 1"})
        self.assertEqual({recording["tracks"][t][0].split(":")[0] for t, _ in recording["gapGpus"]}, {"GPU 0", "GPU 1"})

    def test_what_went_between_devices_is_counted(self):
        path = os.path.join(FOLDER.name, "y.html")
        run("report", "trace", TRACES["streams"], "--format", "html", "-o", path)
        with open(path, encoding="utf-8") as page:
            recording, = page_data.recordings(page.read())
        for gpu in 0, 1:  # a row of 100 cells in each step
            counter = recording["counters"][f"GPU {gpu}: bytes between GPUs by engines"]
            self.assertEqual(counter[-1][1], STEPS * 100 * 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
