#!/usr/bin/env python3
"""`gantry check`, and the examples under it: none of them lacks an edge.

Usage: test_check.py GANTRY FOLDER, a folder of instrumented examples
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

GANTRY, FOLDER = sys.argv[1:3]
WITHOUT_GPU = {"cancel", "condition_loop", "failures", "order_with_edges", "parallel_loop"}


def check(*arguments, **variables):
    """Exit status, stdout, stderr."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([GANTRY, "check", *arguments], capture_output=True, text=True, cwd=folder,
                                stdin=subprocess.DEVNULL, env={**environment, **variables})
    return result.returncode, result.stdout, result.stderr


def example(name):
    return os.path.join(FOLDER, name)


class Examples(unittest.TestCase):
    def test_no_edge_is_missing(self):
        names = {name for name in os.listdir(FOLDER) if os.path.isfile(example(name))}
        self.assertGreater(len(names), 20)
        self.assertLess(WITHOUT_GPU, names)
        for name in sorted(names - WITHOUT_GPU):
            with self.subTest(name):
                status, out, err = check("--json", "--", example(name))
                start = out.rfind('{"status"')
                self.assertGreaterEqual(start, 0, out + err)
                found = json.loads(out[start:])
                self.assertEqual(found["missing"], [], err)
                self.assertEqual((found["status"], found["lacks"], status), (0, "", 0), err)
                self.assertGreater(found["works"], 0)


class Command(unittest.TestCase):
    def test_a_summary(self):
        status, out, err = check(example("double_buffer"))
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"\n0 edges missing; [1-9][0-9]* parts of tasks did [1-9][0-9]* bodies, kernels, copies and fills\n$")

    def test_programs_that_fail(self):
        status, out, err = check("--", "/there/is/no/such/program")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("gantry: error: check: /there/is/no/such/program: No such file or directory", err)
        status, out, err = check("--", "false")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("false has ended with status 1 and said nothing: it has made no context", err)

    def test_programs_without_a_gpu(self):
        status, out, err = check("--json", example("parallel_loop"))
        self.assertEqual(status, 1)
        self.assertIn("said nothing: it has made no context", err)

    def test_wrong_calls(self):
        status, out, err = check()
        self.assertEqual((status, out), (2, ""))
        self.assertIn("check: which program?", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
