#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry run proof_pipeline`: its results are those of the serial run, its tables are whole, its timeline reads.

Usage: test_proof_pipeline.py GANTRY
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

GANTRY = sys.argv.pop(1)
DRIVER = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
CONFIGURATIONS = ["nothing", "inline frees", "reclaimer", "class limit", "limit+CPU set", "bandwidth gate", "kept memory",
                  "everything"]


def run(*arguments):
    return subprocess.run([GANTRY, "run", "proof_pipeline", "--driver", DRIVER, *arguments], capture_output=True,
                          text=True, timeout=250, check=False)


class ProofPipeline(unittest.TestCase):
    def run_well(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("all results as in the serial run", result.stdout)
        return result.stdout

    def test_all_configurations_are_right_and_compared(self):
        out = self.run_well("--concurrency", "1,3", "--repeat", "2", "--rows-log2", "7", "--workers", "2")
        for title in ("nothing", "everything"):
            for table in (f"throughput, {title}\n", f"\nstages, ms per partition (times the first row's), {title}\n",
                          f"\nCPU time of stages, ms per partition (times the first row's), {title}\n"):
                self.assertEqual(out.count(table), 1, out)
                rows = out.split(table)[1].split("\n\n")[0].splitlines()[1:]
                rows = [row for row in rows if re.match(r" +\d+ ", row)]
                self.assertEqual([row.split()[0] for row in rows[-2:]], ["1", "3"], out)
                if table.startswith("throughput"):
                    self.check_the_floor(rows, out)
        gains, counters = out.split("interventions, c = 3")[1].split("counters of these, per run")
        for name in CONFIGURATIONS:
            row = re.search(rf"^{re.escape(name)} +([\d.]+) +([\d.]+) +([-+][\d.]+) +(?:([-+][\d.]+) to ([-+][\d.]+)  (faster|slower|not told apart)|-$)", gains, re.M)
            self.assertIsNotNone(row, gains)
            self.assertGreater(float(row[1]), 0)
            if name != "nothing":
                gain, low, high = float(row[3]), float(row[4]), float(row[5])
                self.assertTrue(low <= gain <= high, gains)
                self.assertEqual(row[6], "faster" if low > 0 else "slower" if high < 0 else "not told apart", gains)
            row = re.search(rf"^{re.escape(name)} +([\d.]+) +([\d.]+) +([\d]+|unknown) +(\d+) ", counters, re.M)
            self.assertIsNotNone(row, counters)
            self.assertGreater(float(row[4]), 0)

    def check_the_floor(self, rows, out):
        """The floor is the same in all rows, and no row is below it; the gap is what is left."""
        cells = [[float(cell.rstrip("%")) for cell in row.split() if cell != "-"] for row in rows]
        self.assertEqual(len({row[-2] for row in cells}), 1, out)
        self.assertGreater(cells[0][-2], 0, out)
        for row in cells:
            self.assertGreaterEqual(row[-1], -0.01, out)
            self.assertAlmostEqual(row[-1], row[2] - row[-2], delta=0.01)

    def test_one_row_of_many_at_a_time_is_above_its_floor(self):
        out = self.run_well("--concurrency", "8", "--repeat", "2", "--rows-log2", "7", "--workers", "2", "--gate", "off")
        self.check_the_floor([row for row in out.split("throughput")[1].split("\n\n")[0].splitlines() if re.match(r" +8 ", row)], out)

    def test_each_row_has_its_number_of_proofs(self):
        out = self.run_well("-c", "1,2,3", "-j", "1,2,6", "--repeat", "1", "--rows-log2", "6", "--workers", "2", "--gate", "off")
        rows = re.findall(r"(?m)^ +(\d) +(\d) +[\d.]+ +- ", out.split("throughput")[1].split("\n\n")[0])
        self.assertEqual(rows, [("1", "1"), ("2", "2"), ("3", "6")], out)
        out = self.run_well("-c", "1,2", "-j", "4", "--repeat", "1", "--rows-log2", "6", "--workers", "2", "--gate", "off")
        self.assertEqual(re.findall(r"(?m)^ +(\d) +(\d) +[\d.]+ +- ", out.split("throughput")[1].split("\n\n")[0]), [("1", "4"), ("2", "4")])
        result = run("-c", "1,2", "-j", "1,2,3")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("--jobs has 3 numbers, and --concurrency 2", result.stderr)

    def test_the_gate_can_yield_instead(self):
        out = self.run_well("--concurrency", "3", "--repeat", "1", "--rows-log2", "7", "--workers", "2", "--gate", "on",
                            "--gate-way", "yield")
        self.assertIn("floor of a proof", out)

    def test_the_reclaimer_runs_one_release_at_a_time(self):
        out = self.run_well("--concurrency", "4", "--repeat", "1", "--rows-log2", "6", "--workers", "2")
        self.assertRegex(out.split("throughput, nothing")[1], r"(?m)^ +4 +4 +[\d.]+ +- ")  # one run has no interval
        self.assertRegex(out.split("interventions")[1], r"(?m)^nothing +[\d.]+ +- +\+0\.0 +-$")
        counters = out.split("counters of these")[1]
        at_once = {name: float(re.search(rf"^{re.escape(name)} .* (\d+) +[\d.]+ +[\d.]+$", counters, re.M)[1])
                   for name in CONFIGURATIONS}
        self.assertEqual(at_once["reclaimer"], 1)
        self.assertEqual(at_once["everything"], 1)

    def test_device_memory_for_one_partition_is_enough(self):
        """Without admission uploads of others would take what the first one's kernels need."""
        out = self.run_well("--concurrency", "6", "--repeat", "1", "--rows-log2", "13", "--device-mb", "2",
                            "--reclaim", "bounded", "--gate", "on", "--class-limit", "on", "--workers", "2")
        self.assertNotIn("interventions", out)

    def test_without_admission_there_must_be_memory_for_all(self):
        out = self.run_well("--concurrency", "2", "--repeat", "1", "--rows-log2", "7", "--workers", "2", "--admission", "off")
        self.assertRegex(out, r"--admission off makes no difference here: .* need [\d.]+ MiB of \d+\n")
        result = run("--concurrency", "6", "--repeat", "1", "--rows-log2", "14", "--device-mb", "2", "--reclaim", "bounded",
                     "--workers", "2", "--admission", "off")
        if result.returncode == 0:  # by chance no two met
            self.assertNotIn("makes no difference", result.stdout)

    def test_the_timeline_has_every_stage(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "proofs.pftrace")
            self.run_well("--concurrency", "2", "--repeat", "1", "--rows-log2", "6", "--gate", "on", "--reclaim", "inline",
                          "--timeline", path)
            trace = pathlib.Path(path).read_bytes()
            report = subprocess.run([GANTRY, "report", "trace", path, "--waterfall", "--json"], capture_output=True, text=True,
                                    timeout=250, check=False)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn(b"bandwidth gate", trace)
        stages = {stage["stage"]: stage for stage in json.loads(report.stdout)["stages"]}
        for name in ("synthesis", "preparation", "upload", "transforms", "download", "tail", "freeing"):
            self.assertEqual(stages[name]["count"], 4, report.stdout)  # two proofs of two partitions
        order = [stages[name]["begin_ns"] for name in ("synthesis", "preparation", "tail", "freeing")]
        self.assertEqual(order, sorted(order), report.stdout)

    def test_wrong_arguments_are_refused(self):
        for arguments in (["--gate", "maybe"], ["--cpu-set", "2"], ["--keep-memory", "2"], ["--admission", "maybe"], ["--reclaim", "later"], ["--concurrency", "1,x"], ["--jobs", "0"],
                          ["--class-limit", "2"], ["--rows-log2", "25"], ["proof"]):
            with self.subTest(arguments):
                result = run(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn("proof_pipeline", result.stderr)


if __name__ == "__main__":
    unittest.main()
