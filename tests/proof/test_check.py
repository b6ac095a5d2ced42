#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`gantry check`, and the examples under it: none of them lacks an edge.

Usage: test_check.py GANTRY FOLDER [--exhaustive], a folder of instrumented examples
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

GANTRY, FOLDER = sys.argv[1:3]
WITHOUT_GPU = {"cancel", "condition_loop", "failures", "order_with_edges", "parallel_loop"}
KNIFE = os.path.join(FOLDER, "edges", "libedge-knife.so")


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


class Extras(unittest.TestCase):
    def test_what_is_told_on_request(self):
        status, out, err = check("--json", "--needless", "--unread", "--unwritten", "--", example("stream_ordered_memory"))
        found = json.loads(out[out.rfind('{"status"'):])
        self.assertEqual((status, found["missing"], found["unwritten"]), (0, [], []), err)
        self.assertEqual([line.split(" (")[0] for line in found["needless"]],
                         ["no bytes need the edge from one task 'work' to another 'work'"])
        self.assertIn("nobody reads the block 'scratch' at 0x", found["unread"][0])
        status, out, err = check("--json", "--", example("stream_ordered_memory"))
        found = json.loads(out[out.rfind('{"status"'):])
        self.assertEqual((status, found["needless"], found["unread"]), (0, [], []))


class Declared(unittest.TestCase):
    def test_what_is_not_declared(self):
        program = os.path.join(FOLDER, os.pardir, "test_proof_declared")
        status, out, err = check("--json", "--", program, "4")
        found = json.loads(out[out.rfind('{"status"'):])
        self.assertEqual((found["status"], found["lacks"], status), (0, "", 1), err)
        self.assertEqual(sum("task 'beyond' writes in pipeline_scale (block 4)" in line for line in found["undeclared"]), 1)
        status, out, err = check("--", program, "4")
        self.assertEqual(status, 1, err)
        self.assertIn("\naccesses that tasks have not declared, or of freed memory:\n  task 'beyond' writes", out)
        self.assertRegex(out, r"\n\d+ edges missing, [1-9]\d* accesses not declared or of freed memory; ")


class Strangers(unittest.TestCase):
    SCENES = {"double_buffer": {"consume", "produce"}, "reuse": {"first", "second"}, "atomics": {"add", "clear"},
              "under_a_mutex": {"insert", "look"}, "handed_over": {"last", "give back"}, "frozen": {"left", "right"}, "variables": {"count"},
              "half_guarded": {"sum up"}}

    def found(self, *arguments):
        """The pairs of tasks that are named."""
        status, out, err = check("--json", "--malloc", "--", example("edges/strangers"), *arguments)
        found = json.loads(out[out.rfind('{"status"'):])
        self.assertEqual((found["status"], found["lacks"], status), (0, "", 1 if found["missing"] else 0), err)
        return [set(re.findall(r"task '([^']*)'", line)) for line in found["missing"]]

    def test_races_are_found_and_nothing_else(self):
        for scene, pair in self.SCENES.items():
            with self.subTest(scene):
                self.assertEqual(self.found(scene), [])
                found = self.found(scene, "race")
                self.assertTrue(found and all(named <= pair for named in found), found)  # which of them meet is chance


class Pipelines(unittest.TestCase):
    EACH = 1 if "--exhaustive" in sys.argv else 3  # of the edges every so many is taken out

    def taken(self, name, edge):
        """What the pipeline prints, and the pairs of tasks that are named when the edge is left out."""
        variables = {"PROOF_LEAVE_OUT": str(edge)} if edge is not None else {}
        status, out, err = check("--json", "--malloc", "--", example("edges/pipelines"), name, LD_PRELOAD=KNIFE, **variables)
        found = json.loads(out[out.rfind('{"status"'):])
        self.assertEqual((found["status"], found["lacks"], status), (0, "", 1 if found["missing"] else 0), out + err)
        return out, found["missing"]

    def test_each_edge_that_orders_bytes_is_missed(self):
        for name, least in (("double", 32), ("reuse", 20), ("locks", 10)):
            out, missing = self.taken(name, None)
            self.assertEqual(missing, [])
            free, needed = [[int(edge) for edge in re.search(f"^{kind}(.*)$", out, re.M)[1].split()] for kind in ("free", "needed")]
            self.assertGreaterEqual(len(needed), least)
            for edge in free[::self.EACH]:
                with self.subTest(f"{name}, free edge {edge}"):
                    self.assertEqual(self.taken(name, edge)[1], [])
            for edge in needed[::self.EACH]:
                with self.subTest(f"{name}, edge {edge}"):
                    self.assertNotEqual(self.taken(name, edge)[1], [])


class Sanitizers(unittest.TestCase):
    PROJECT = """cmake_minimum_required(VERSION 3.25)
project(refused C CXX)
%s
file(WRITE "${CMAKE_BINARY_DIR}/one.cu" "")
set(GANTRY_KERNEL_CHECKS ON)
include("%s/cmake/GantryKernels.cmake")
add_executable(one "${CMAKE_BINARY_DIR}/one.cu")
gantry_add_kernels(one "${CMAKE_BINARY_DIR}/one.cu")
"""

    def configure(self, line):
        """What CMake says of a project of instrumented kernels with that line."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
                file.write(self.PROJECT % (line, os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))))
            done = subprocess.run(["cmake", "-S", folder, "-B", folder + "/build", "-DCMAKE_C_COMPILER_WORKS=1",
                                   "-DCMAKE_CXX_COMPILER_WORKS=1", "-DCMAKE_BUILD_TYPE=Debug"], capture_output=True, text=True)
            return done.returncode, " ".join(done.stderr.split())

    def test_they_are_refused(self):
        for line in ('set(CMAKE_C_FLAGS "-fsanitize=address")', 'set(CMAKE_CXX_FLAGS_DEBUG "-fsanitize=undefined")',
                     "add_compile_options(-fsanitize=thread)"):
            status, err = self.configure(line)
            self.assertEqual(status, 1)
            self.assertIn("GANTRY_KERNEL_CHECKS takes the place of a sanitizer's runtime: build without -fsanitize", err)


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
        self.assertIn("false has ended with status 1 and said nothing: it does not use Gantry, or", err)

    def test_programs_without_a_gpu(self):
        status, out, err = check(example("order_with_edges"))
        self.assertEqual(status, 0, err)
        self.assertIn("no memory was looked at: the program has made no context", out)
        for name in sorted(WITHOUT_GPU - {"failures", "cancel"}):
            status, out, err = check("--json", "--malloc", "--", example(name))
            found = json.loads(out[out.rfind('{"status"'):])
            self.assertEqual((status, found["missing"], found["watched"]), (0, [], ["malloc"]), name + err)
            self.assertGreater(found["works"], 0)

    def test_wrong_calls(self):
        status, out, err = check()
        self.assertEqual((status, out), (2, ""))
        self.assertIn("check: which program?", err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
