#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/device_run.py says what a run on a device came to and keeps it; tools/device_debt lists what has changed since."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
PAGE = (TOOLS.parent / "docs/results/device.md").read_text()
RESULTS = ('<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail"/><testcase name="c" status="notrun">'
           '<skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: no cluster</system-out></testcase></testsuite>')
FILES = {
    "driver/funcs.h": "#define GY_DRIVER_FUNCS(F) F(true, cuInit, cuInit, (unsigned int flags)) F(true, cuMemFree, cuMemFree_v2, (int a))\n",
    "heap/frees.c": "/* Frees. */\nint f(void) { return call(driver->cuMemFree(1)); }\n",
    "heap/speaks.c": "/* cuMemFree() is called elsewhere. */\nconst char *text = \"cuMemFree\";\n",
    "emulator/memory.c": "int cuMemFree(int a);\n",
    "samples/scale.cu": "/* Scales. */\n__global__ void scale(int *a) { *a *= 2; }\n",
    "tests/frees.c": "int g(void) { return call(driver->cuMemFree(2)); }\n",
    "docs/results/device.md": "# Runs\n\nNo run is recorded yet.\n\nThe end.\n",
}
CALLERS = ["driver/funcs.h", "heap/frees.c", "samples/scale.cu"]


class DeviceRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write(**FILES)
        self.git("init", "-q")
        self.commit()

    def write(self, **files):
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", self.root, *words], capture_output=True, text=True,
                              check=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "t")
        return self.git("rev-parse", "HEAD")

    def tool(self, name, *words):
        return subprocess.run([sys.executable, TOOLS / name, "--root", self.root, *words], capture_output=True, text=True, timeout=60)

    def run_of(self, commit, device="NVIDIA H200", passed=1, driver="CUDA 13.0"):
        path = self.root / ".git/run.json"
        path.write_text(json.dumps({"commit": commit, "driver": driver, "device": device, "date": "2026-11-29", "passed": passed, "failed": [],
                                    "skipped": []}))
        return path

    def record(self, *words, **more):
        done = self.tool("device_run.py", "record", self.run_of(*words, **more))
        self.assertEqual(done.stderr, "")
        return (self.root / "docs/results/device.md").read_text()

    def debt(self):
        return self.tool("device_debt").stdout.split()

    def say(self, answer):
        gantry = self.root / ".git/gantry"
        gantry.write_text(f"#!/bin/sh\n{answer}\n")
        gantry.chmod(0o755)
        (self.root / ".git/tests.xml").write_text(RESULTS)
        done = self.tool("device_run.py", "say", gantry, self.root / ".git/tests.xml", self.root / ".git/out.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout, json.loads((self.root / ".git/out.json").read_text())

    def test_a_run_is_said_and_written(self):
        commit = self.git("rev-parse", "HEAD")
        info = json.dumps({"driver_version": 13010, "device": {"name": "NVIDIA H200"}})
        line, run = self.say(f"echo '{info}'")
        self.assertEqual(line, f"device run: {commit}, CUDA 13.1, NVIDIA H200, 1 passed, 1 failed, 1 skipped\n")
        self.assertEqual((run["commit"], run["failed"], run["skipped"]), (commit, ["b"], [{"test": "c", "why": "no cluster"}]))
        self.write(**{"heap/frees.c": "int f(void);\n"})
        line, run = self.say("exit 1")
        self.assertEqual(line, f"device run: {commit}+, none, no device, 1 passed, 1 failed, 1 skipped\n")

    def test_the_page_keeps_the_last_run_of_each_kind(self):
        first = self.commit() if self.git("status", "--porcelain") else self.git("rev-parse", "HEAD")
        page = self.record(first)
        self.assertNotIn("No run", page)
        self.assertTrue(page.startswith("# Runs\n\n| device |") and page.endswith(" |\n\nThe end.\n"), page)
        self.record(first, "NVIDIA A100", passed=5)
        second = self.commit()
        page = self.record(second, passed=7)
        self.assertIn(f"| NVIDIA H200 | CUDA 13.0 | `{second}` | 2026-11-29 | 7 | 0 | 0 |\n", page)
        self.assertIn(f"| NVIDIA A100 | CUDA 13.0 | `{first}` | 2026-11-29 | 5 | 0 | 0 |\n", page)
        self.assertEqual(page.count("NVIDIA"), 2)

    def test_what_cannot_be_had_again_is_not_kept(self):
        commit = self.git("rev-parse", "HEAD")
        for run, why in (((commit + "+",), "no commit"), (("unknown",), "no commit"), ((commit, "no device", 1, "none"), "no device")):
            done = self.tool("device_run.py", "record", self.run_of(*run))
            self.assertIn(why, done.stderr)
            self.assertEqual(done.returncode, 1)
        self.assertEqual((self.root / "docs/results/device.md").read_text(), FILES["docs/results/device.md"])

    def test_without_a_run_all_that_calls_cuda_is_owed(self):
        self.assertEqual(self.debt(), CALLERS)
        self.assertIn("no run on a device is recorded: 3 files", self.tool("device_debt", "--warn").stdout)
        self.record("0" * 40)  # a commit that this repository does not have
        self.assertEqual(self.debt(), CALLERS)

    def test_code_that_changed_is_owed(self):
        self.record(self.git("rev-parse", "HEAD"))
        self.assertEqual((self.debt(), self.tool("device_debt", "--warn").stdout), ([], ""))
        self.write(**{"heap/frees.c": "/* Frees memory. */\n" + FILES["heap/frees.c"], "heap/speaks.c": "int h;\n", "tests/frees.c": "int i;\n",
                      "emulator/memory.c": "int j;\n"})
        self.git("mv", "samples/scale.cu", "samples/scales.cu")
        self.assertEqual(self.debt(), [])
        self.commit()
        self.write(**{"samples/scales.cu": FILES["samples/scale.cu"].replace("2", "3"), "heap/new.c": FILES["heap/frees.c"]})
        self.assertEqual(self.debt(), ["heap/new.c", "samples/scales.cu"])
        warning = self.tool("device_debt", "--warn").stdout
        self.assertIn("is 1 commits old: 2 files that call CUDA have not been tried on one since: heap/new.c, samples/scales.cu (", warning)
        self.record(self.commit(), "NVIDIA A100")  # the newest of the runs counts
        self.assertEqual(self.debt(), [])

    def test_the_page_of_this_tree_can_be_written(self):
        self.write(**{"docs/results/device.md": PAGE})
        self.assertIn("| NVIDIA H200 |", self.record(self.commit()))


unittest.main()
