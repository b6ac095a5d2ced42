#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_tenants.py MAKE_TENANTS MAKE_TRACE GANTRY: what a report says of who shares the GPU, of recordings whose contents
are known.  1 s."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "page"))
import page_data  # noqa: E402

MAKE_TENANTS, MAKE_TRACE, GANTRY = sys.argv[1:4]


def setUpModule():
    global FOLDER, TRACE, TEXT, REPORT
    FOLDER = tempfile.mkdtemp()
    TRACE = os.path.join(FOLDER, "tenants.pftrace")
    subprocess.run([MAKE_TENANTS, TRACE], check=True)
    TEXT, REPORT = report(TRACE), json.loads(report(TRACE, "--json"))


def tearDownModule():
    shutil.rmtree(FOLDER)


def report(path, *arguments):
    return subprocess.run([GANTRY, "report", "trace", path, *arguments], check=True, capture_output=True, text=True).stdout


def partitioned(strays):
    """A recording whose blocks have gone through the library's own writer, and its report."""
    path = os.path.join(FOLDER, f"strays{strays}.pftrace")
    subprocess.run([MAKE_TRACE, path], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "MAKE_TRACE_PARTITIONS": str(strays)})
    return path, {t["name"]: t for t in json.loads(report(path, "--json"))["tenants"]}


class Tenants(unittest.TestCase):
    maxDiff = None

    def test_what_each_was_to_get_and_got(self):
        alpha, beta, manager = REPORT["tenants"]
        self.assertEqual(alpha, {"name": "alpha", "gpu": "GPU 0: example", "target_ppm": 300000, "charged_us": 65000,
                                 "counted_us": 200000, "worst_100ms_us": 50000, "holds": 2, "held_ns": 1990000 + 1200000,
                                 "tasks": 100, "p50_ns": 50000, "p99_ns": 99000, "blocks": 50, "strays": 5,
                                 "sms": [[0, 3], [5, 5]]})
        self.assertEqual(beta, {"name": "beta", "gpu": "GPU 0: example", "target_ppm": 0, "charged_us": 0, "counted_us": 0,
                                "worst_100ms_us": 0, "holds": 0, "held_ns": 0, "tasks": 10, "p50_ns": 500000,
                                "p99_ns": 500000, "blocks": 14, "strays": 1, "sms": [[3, 5]]})
        self.assertEqual(manager, {"name": "task manager 5", "gpu": "", "target_ppm": 100000, "charged_us": 200 + 100,
                                   "counted_us": 120000, "worst_100ms_us": 200, "holds": 1, "held_ns": 400000, "tasks": 4,
                                   "p50_ns": 500000, "p99_ns": 500000, "blocks": 0, "strays": 0, "sms": []})

    def test_who_held_whom(self):
        self.assertEqual(REPORT["held_back"], [{"tenant": "alpha", "turn_of": "", "device": 0, "count": 1, "ns": 1990000},
                                               {"tenant": "alpha", "turn_of": "beta", "device": 0, "count": 1, "ns": 1200000},
                                               {"tenant": "task manager 5", "turn_of": "", "device": 0, "count": 1, "ns": 400000}])

    def test_idle_times_have_the_causes_that_were_made(self):
        gaps = REPORT["gaps"]
        causes = {name: (gaps[name]["count"], gaps[name]["ns"]) for name in ("share", "exchange", "order", "launch", "dispatcher", "completion", "memory", "host_task")}
        self.assertEqual(causes, {"share": (2, 1990000 + 1980000), "launch": (1, 1960000), "exchange": (1, 1940000), "order": (2, 1935000 + 1933000),
                                  "dispatcher": (2, 1955000 + 1934000), "completion": (1, 1930000), "memory": (0, 0), "host_task": (1, 1928000)})
        self.assertEqual(gaps["count"], sum(gaps[name]["count"] for name in (*causes, "nothing_ready")))

    def test_the_text_has_the_tables(self):
        lines = TEXT.splitlines()
        row = next(i for i, line in enumerate(lines) if line.startswith("tenant "))
        self.assertEqual([line.split() for line in lines[row:row + 4]], [
            "tenant target got worst 100ms held ms tasks p50 us p99 us SMs blocks strays".split(),
            "alpha 30.0 % 32.5 % 50.0 % 3.190 100 50.000 99.000 5 50 5".split(),
            "beta - - - 0.000 10 500.000 500.000 3 14 1".split(),
            "task manager 5 10.0 % 0.2 % 0.2 % 0.400 4 500.000 500.000".split()])
        self.assertRegex(TEXT, r"(?m)^  alpha +1, 1\.990 ms on GPU 0: its own share was used up$")
        self.assertRegex(TEXT, r"(?m)^  alpha +1, 1\.200 ms on GPU 0: beta had the turn$")
        self.assertRegex(TEXT, r"(?m)^  held back by a share +2, 3\.970 ms$")
        self.assertRegex(TEXT, r"(?m)^  waiting for a renderer +1, 1\.940 ms$")
        self.assertRegex(TEXT, r"(?m)^  launched, but not begun +2, 3\.868 ms$")
        self.assertRegex(TEXT, r"(?m)^  done, but not told +1, 1\.930 ms$")
        self.assertRegex(TEXT, r"(?m)^  alpha +0-3, 5$")
        self.assertRegex(TEXT, r"(?m)^  6 blocks are strays: ")

    def test_partitions_of_one_name_have_the_figures_of_their_own_gpu(self):
        path = os.path.join(FOLDER, "two.pftrace")
        subprocess.run([MAKE_TENANTS, path, "two"], check=True)
        told, text = json.loads(report(path, "--json")), report(path)
        figures = ("gpu", "target_ppm", "charged_us", "counted_us", "holds", "held_ns", "tasks")
        self.assertEqual([tuple(t[f] for f in figures) for t in told["tenants"] if t["name"] == "alpha"], [
            ("GPU 0: example", 300000, 65000, 200000, 2, 1990000 + 1200000, 100),
            ("GPU 1: example", 500000, 800, 150000, 1, 1000000, 4)])
        self.assertEqual([(h["device"], h["count"], h["ns"]) for h in told["held_back"] if (h["tenant"], h["turn_of"]) == ("alpha", "")],
                         [(0, 1, 1990000), (1, 1, 1000000)])
        self.assertEqual([line.split()[:5] for line in text.splitlines() if line.startswith("alpha, GPU ")],
                         [["alpha,", "GPU", "0", "30.0", "%"], ["alpha,", "GPU", "1", "50.0", "%"]])
        self.assertRegex(text, r"(?m)^  alpha +1, 1\.000 ms on GPU 1: its own share was used up$")

    def test_blocks_of_a_run_prove_isolation_or_its_breach(self):
        for strays, alpha_sms in ((0, [[0, 4]]), (3, [[0, 7]])):
            path, tenants = partitioned(strays)
            self.assertEqual((tenants["alpha"]["blocks"], tenants["alpha"]["strays"], tenants["alpha"]["sms"]),
                             (800, strays, alpha_sms))
            self.assertEqual((tenants["beta"]["blocks"], tenants["beta"]["strays"], tenants["beta"]["sms"]), (400, 0, [[5, 9]]))
            self.assertEqual("No SM ran blocks of two partitions." in report(path), strays == 0)

    def test_the_page_shows_sms_by_partition(self):
        path, _ = partitioned(1)
        data, = page_data.recordings(report(path, "--format", "html"))
        groups = {track[0]: track[1] for track in data["tracks"] if track[2] == 4}
        self.assertEqual(groups, {f"SM {sm:03}": "GPU 0: example, SMs of " + ("alpha" if sm < 5 else "beta") for sm in range(10)})
        self.assertEqual([(t["name"], t["strays"]) for t in data["tenants"]], [("alpha", 1), ("beta", 0)])


unittest.main(argv=sys.argv[:1])
