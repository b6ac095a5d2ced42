#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/path_length finds the functions and files of a step, and the file that has made the path longer.

Usage: test_path_length.py CC
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/path_length"
LOADER = importlib.machinery.SourceFileLoader("path_length", str(TOOL))
path_length = importlib.util.module_from_spec(importlib.util.spec_from_loader("path_length", LOADER))
LOADER.exec_module(path_length)

CC = sys.argv[1]
# Says what path_steps would: `often` is entered by each step, `seldom` by every third; two more functions of a.h are one.
PROGRAM = """#include "a.h"
#include <stdio.h>
#include <stdlib.h>
extern const char __executable_start;
void often(void) {}
void seldom(void) {}
void *other(void);
int main(int argc, char **argv)
{
    for (int i = 0; i < atoi(argv[3]); i++) {
        printf("%d", 10 + 5 * atoi(argv[2]) + (i % 7 == 3 ? 100 : 0));
        void *entered[] = {(void *)often, (void *)in_header, other(), i % 3 == 0 ? (void *)seldom : NULL};
        for (int j = 0; j < 4 && entered[j] != NULL; j++) {
            printf(" %zx", (size_t)((const char *)entered[j] - &__executable_start));
        }
        putchar('\\n');
    }
    return argc != 5;
}
"""
SOURCES = {"a.h": "static void in_header(void) {}\n", "a.c": PROGRAM, "b.c": '#include "a.h"\nvoid *other(void) { return (void *)in_header; }\n'}
GOOD = {"functions": 2, "files": 2, "calls": 5}


class PathLength(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = cls.folder.name
        for name, text in SOURCES.items():
            pathlib.Path(root, name).write_text(text)
        os.mkdir(f"{root}/tests")
        path_length.ROOT = root
        subprocess.run([CC, "-w", "-O0", "-g1", "-gdwarf-4", f"-ffile-prefix-map={root}/=", "-o", f"{root}/{path_length.PROGRAM}", f"{root}/a.c", f"{root}/b.c"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, budgets, known=None, is_lowering=False):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            errors, _, lower = path_length.check_mode(self.folder.name, "auto", budgets, {"auto": known} if known else {}, is_lowering)
        return errors, lower, printed.getvalue().splitlines()

    def test_what_half_of_the_steps_enter(self):
        figures, entered = path_length.measure(self.folder.name, "auto")
        self.assertEqual(dict(figures), GOOD)
        self.assertEqual(set(entered), {("often", "a.c"), ("in_header", "a.h")})
        self.assertEqual(figures.parts["functions"], {"a.c": 1, "a.h": 1})

    def test_within_the_budget(self):
        self.assertEqual(self.check(GOOD), ([], {}, ["path.auto: functions 2, files 2, calls 5"]))

    def test_above_names_the_file_that_grew(self):
        errors = self.check({**GOOD, "functions": 1, "files": 1}, {"a.c": 1})[0]
        self.assertEqual(errors, ["path.auto: functions is 2, at most 1: grown: a.h by 1", "path.auto: files is 2, at most 1: grown: a.h by 1"])
        self.assertEqual(self.check({**GOOD, "calls": 4})[0], ["path.auto: calls is 5, at most 4: no file adds to it"])

    def test_below_is_no_error_and_can_be_written(self):
        errors, lower, printed = self.check({**GOOD, "calls": 9}, is_lowering=True)
        self.assertEqual((errors, lower), ([], {"calls": 5}))
        self.assertIn("path.auto: calls is less than its budget: write calls = 5 for 9", printed)

    def test_of_several_measurements_the_chosen_one(self):
        one, other = path_length.Figures(), path_length.Figures()
        for figures, functions, files in ((one, 3, 1), (other, 2, 2)):
            figures.add("functions", "a.c", functions)
            figures.add("files", "a.c", files)
        self.assertEqual(path_length.join(one, other, min), {"functions": 2, "files": 1})
        self.assertEqual(path_length.join(one, other, max), {"functions": 3, "files": 2})
        self.assertEqual(path_length.join(one, other, min).parts, other.parts)

    def test_the_table_of_files(self):
        figures = path_length.figures_of([("f", "x/a.c"), ("g", "x/a.c"), ("h", "b.h")], 10, 10)
        text = path_length.write_files({"auto": figures, "replay": path_length.figures_of([("f", "x/a.c")], 0, 0)})
        self.assertEqual(path_length.read_files(text), {"auto": {"x/a.c": 2, "b.h": 1}, "replay": {"x/a.c": 1}})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
