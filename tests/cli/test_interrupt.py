#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ctrl-C while the command works: exit status 130, what is done stays, and nothing half-written does.

Usage: test_interrupt.py GANTRY
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GANTRY = sys.argv[1]
F_SETPIPE_SZ = 1031  # the module fcntl has it since Python 3.10
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")},
               "GANTRY_DRIVER": "emulated", "TERM": "xterm"}


def start(*arguments, **more):
    return subprocess.Popen([GANTRY, *arguments], stdin=subprocess.DEVNULL, text=True,
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **more})


def interrupt(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class Interrupt(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_results_of_a_bench_are_kept(self):
        process = start("bench", "--json", "--runs", "100000", "bandwidth")
        self.wait_for_interrupts(process)
        time.sleep(0.3)
        status, out, err = interrupt(process)
        self.assertEqual((status, out), (130, ""), err)
        process = start("bench", "--json", "--runs", "300", "tasks")
        first = process.stdout.readline()
        status, out, err = interrupt(process)
        self.assertEqual(status, 130, err)
        for line in [first, *out.splitlines()]:
            self.assertTrue(json.loads(line)["verified"])
        self.assertEqual(err, "gantry: note: interrupted; the results so far are complete, the others were left out\n")

    def test_a_sample_ends(self):
        process = start("run", "two_tenants", "--seconds", "1000")
        self.wait_for_interrupts(process)
        time.sleep(1)
        status, out, err = interrupt(process)
        self.assertEqual(status, 130, err)
        self.assertIn("gantry: note: interrupted", err)

    def test_a_recording_is_ended(self):
        path = self.folder / "run.pftrace"
        process = start("run", "two_tenants", "--seconds", "1000", env={**ENVIRONMENT, "GANTRY_PROFILE": str(path)})
        self.wait_for_interrupts(process)
        time.sleep(1)
        self.assertEqual(interrupt(process)[0], 130)
        report = subprocess.run([GANTRY, "report", "trace", path], capture_output=True, text=True)
        self.assertEqual((report.returncode, report.stderr), (0, ""))

    def test_no_half_of_a_file_stays(self):
        """The report of a long recording is interrupted once its output has begun."""
        recording, page = self.folder / "long.pftrace", self.folder / "page.html"
        subprocess.run([GANTRY, "run", "two_tenants", "--seconds", "0.3"], check=True, capture_output=True,
                       env={**ENVIRONMENT, "GANTRY_PROFILE": str(recording)})
        recording.write_bytes(recording.read_bytes() * 100)
        process = start("report", "trace", recording, "--format", "html", "-o", page)
        while len(list(self.folder.iterdir())) == 1 and process.poll() is None:
            time.sleep(0.001)
        status, out, err = interrupt(process)
        self.assertEqual((status, err), (130, f"gantry: note: interrupted; nothing was written to {page}\n"))
        self.assertEqual(list(self.folder.iterdir()), [recording])

    def test_a_file_that_was_there_stays_as_it_was(self):
        """Whatever is written, and whichever of two recordings is being read."""
        short, long, out = self.folder / "run.pftrace", self.long_recording(50_000_000), self.folder / "out"
        subprocess.run([GANTRY, "run", "hello_graph"], check=True, capture_output=True,
                       env={**ENVIRONMENT, "GANTRY_PROFILE": str(short)})
        out.write_text("as it was")
        for arguments in ([long], [long, "--json"], [long, "--waterfall"], [long, "--diff", short], [short, "--diff", long],
                          [long, "--format", "json"], [long, short, "--format", "html"], [short, long, "--format", "html"]):
            with self.subTest(arguments):
                process = start("report", "trace", *arguments, "-o", out)
                while len(list(self.folder.iterdir())) == 3 and process.poll() is None:
                    time.sleep(0.001)
                self.assertEqual(interrupt(process)[::2], (130, f"gantry: note: interrupted; nothing was written to {out}\n"))
                self.assertEqual((out.read_text(), len(list(self.folder.iterdir()))), ("as it was", 3))

    def test_half_a_report_is_not_called_complete(self):
        recording = self.folder / "run.pftrace"
        subprocess.run([GANTRY, "run", "two_tenants", "--seconds", "0.3"], check=True, capture_output=True,
                       env={**ENVIRONMENT, "GANTRY_PROFILE": str(recording)})
        ours, its = os.pipe()
        fcntl.fcntl(its, F_SETPIPE_SZ, 4096)  # the page is larger, however little a busy machine has recorded
        process = start("report", "trace", recording, "--format", "html", stdout=its)
        os.close(its)
        os.read(ours, 1)  # the page has begun
        self.wait_until(process, lambda status: status["State"].startswith("S"))
        process.send_signal(signal.SIGINT)
        self.wait_until(process, lambda status: int(status["ShdPnd"], 16) == 0)  # else the page may end first
        with open(ours, "rb") as rest:
            rest.read()
        _, err = process.communicate(timeout=60)
        status = process.returncode
        self.assertEqual((status, err), (130, "gantry: note: interrupted; what was printed of the report is not complete\n"))

    def long_recording(self, size=200_000_000):
        """A recording whose reading takes seconds."""
        recording = self.folder / "long.pftrace"
        subprocess.run([GANTRY, "run", "two_tenants", "--seconds", "0.3"], check=True, capture_output=True,
                       env={**ENVIRONMENT, "GANTRY_PROFILE": str(recording)})
        data = recording.read_bytes()
        with open(recording, "ab") as file:
            for _ in range(size // len(data)):
                file.write(data)
        return recording

    def fill(self, side):
        """Write until the terminal takes no more, also a while later: the kernel passes on what it has taken."""
        os.set_blocking(side, False)
        refused = 0
        while refused < 30:
            try:
                os.write(side, b"x")
                refused = 0
            except BlockingIOError:
                refused += 1
                time.sleep(0.01)
        os.set_blocking(side, True)

    def wait_for_interrupts(self, process):
        """Until a thread of the process waits for SIGINT, which the others block: a busy machine takes its time."""
        self.wait_until(process, lambda status: int(status["SigBlk"], 16) & 1 << signal.SIGINT - 1)

    def wait_until(self, process, is_so):
        """Until /proc says so of the process, twenty times in a row."""
        times = 0
        while times < 20:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            times = times + 1 if is_so(status) else 0
            self.assertIsNone(process.poll())
            time.sleep(0.01)

    def test_a_report_is_of_what_was_read(self):
        try:
            terminal, side = pty.openpty()
        except OSError:
            self.skipTest("no terminal")
        recording = self.long_recording()
        self.fill(side)
        process = start("report", "trace", recording, "--json", stderr=side)
        os.close(side)
        self.wait_until(process, lambda status: status["State"].startswith("S") and status["Threads"] == "2")
        process.send_signal(signal.SIGINT)
        self.wait_until(process, lambda status: int(status["ShdPnd"], 16) == 0)
        shown = b""
        try:
            while (more := os.read(terminal, 4096)):
                shown += more
        except OSError:
            pass
        os.close(terminal)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, shown)
        report = json.loads(out)
        self.assertIs(report["complete"], False)
        self.assertGreater(report["gpu"]["tasks"], 0)
        self.assertRegex(shown.decode(), r"long.pftrace: read \d+ of 2\d\d MB, Ctrl-C ends this\r")
        self.assertRegex(shown.decode(), r"interrupted; this is about what was read, the last [\d.]+ MB of the file are missing")

    def test_where_it_is_ignored_it_stays_ignored(self):
        process = start("run", "two_tenants", "--seconds", "0.5", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        time.sleep(0.5)
        status, out, err = interrupt(process)
        self.assertEqual(status, 0, err)

    def test_a_terminal_is_shown_how_far_a_bench_is(self):
        try:
            terminal, side = pty.openpty()
        except OSError:
            self.skipTest("no terminal")
        process = start("bench", "--runs", "100000", "bandwidth", stderr=side)
        os.close(side)
        shown = b""
        while b"yield-down: run 1" not in shown and (more := os.read(terminal, 4096)):
            shown += more
        status, out, err = interrupt(process)
        self.assertEqual(status, 130)
        self.assertRegex(shown.decode(), r"bandwidth/yield-down: run \d+ of 100000\r")
        try:
            while (more := os.read(terminal, 4096)):
                shown += more
        except OSError:
            pass
        os.close(terminal)
        self.assertIn("\r\033[Kgantry: ", shown.decode())  # the line is gone when something else is said

    def test_whatever_takes_seconds_says_how_far_it_is(self):
        for arguments, said in ((["info", "--calibrate"], rb"measuring copies: \d+ s, Ctrl-C ends this\r"),
                                (["run", "critical_latency", "--samples", "10000"], rb"plain streams, way 1 of 5: 10000 times, Ctrl-C ends this\r"),
                                (["run", "two_tenants", "--seconds", "1000"], rb"part 1 of 3: 1000 s\r")):
            with self.subTest(arguments):
                try:
                    terminal, side = pty.openpty()
                except OSError:
                    self.skipTest("no terminal")
                process = start(*arguments, stderr=side)
                self.addCleanup(process.kill)
                os.close(side)
                shown = b""
                while not re.search(said, shown) and (more := os.read(terminal, 4096)):
                    shown += more
                self.assertEqual(interrupt(process)[0], 130)
                os.close(terminal)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
