#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every example is built from the installed files alone, runs, and prints what its section of the gallery says.

Usage: test_examples.py SOURCE_DIR BUILD_DIR CC CXX
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
CC, CXX = sys.argv[3:5]
DRIVER = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
os.environ.pop("GANTRY_EMULATOR", None)  # one of them is linked with the installed copy, and no other is to be loaded
WARNINGS = "-Wall -Wextra -Wshadow -Wno-unused-parameter -Werror"
MOST_LINES = {".c": 80, ".cpp": 80, ".cu": 20}  # of a program that is read in one go
MOST_LINES_OF_SAMPLE = 90  # hello_graph, which is a sample: it has a comment for what the others repeat


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            stdin=subprocess.DEVNULL, timeout=300, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gantry examples ")
        folder = pathlib.Path(cls.scratch.name)
        run("cmake", "--install", BUILD, "--prefix", folder / "prefix")
        cls.installed = folder / "prefix/share/doc/gantry"
        emulator = next((folder / "prefix").rglob("libgantry-emu.so"))
        compiler = ["-DGANTRY_KERNEL_COMPILER=none"] if DRIVER == "emulated" else []
        cls.configure = ["cmake", "-G", "Ninja", "-S", cls.installed / "examples", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}",
                         f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_C_FLAGS={WARNINGS}",
                         f"-DCMAKE_CXX_FLAGS={WARNINGS}", f"-DCUDA_LIBRARY={emulator}", *compiler]
        run(*cls.configure, "-B", folder / "build", f"-DCUDA_INCLUDE_DIR={SOURCE / 'tests/docs/include'};{SOURCE}")
        run("cmake", "--build", folder / "build", "--parallel", "2")
        cls.programs, cls.folder = folder / "build", folder
        cls.gallery = (cls.installed / "examples/README.md").read_text()
        cls.sections = dict(re.findall(r"(?s)\n## (\w+)\n(.*?)(?=\n## |\Z)", cls.gallery))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_every_example_is_in_the_gallery(self):
        folders = {path.parent.name for path in (SOURCE / "examples").glob("*/CMakeLists.txt")}
        self.assertEqual(set(self.sections), folders | {"hello_graph"})
        self.assertGreaterEqual(len(folders), 12)

    def test_they_print_what_the_gallery_says(self):
        for name, section in self.sections.items():
            with self.subTest(name):
                expected = re.search(r"prints\n\n```text\n(.*?)```", section, re.S)[1]
                # It is linked with the emulated driver: there is nothing else to link with here.
                driver = "emulated" if name == "existing_cuda_code" else DRIVER
                self.assertEqual(run(self.programs / name, cwd=self.folder, env={**os.environ, "GANTRY_DRIVER": driver}), expected)

    def test_one_that_does_not_build_with_this_cuda_header_is_left_out(self):
        header = self.folder / "old cuda/cuda.h"
        header.parent.mkdir()
        header.write_text("#error this header is of another world\n")
        said = run(*self.configure, "-B", self.folder / "without", f"-DCUDA_INCLUDE_DIR={header.parent}")
        self.assertIn("existing_cuda_code is left out: it does not build with the cuda.h in", said)
        self.assertIn("this header is of another world", said)
        targets = run("cmake", "--build", self.folder / "without", "--target", "help")
        self.assertNotIn("existing_cuda_code", targets)
        self.assertIn("cpu_after_gpu", targets)

    def test_each_is_a_small_project_of_its_own(self):
        for name in self.sections:
            with self.subTest(name):
                folder = next(path for path in (self.installed / "examples" / name, self.installed / "samples" / name) if path.exists())
                lists = (folder / "CMakeLists.txt").read_text()
                self.assertIn(f"project({name} ", lists)
                self.assertIn("find_package(gantry REQUIRED)", lists)
                for program in folder.glob(f"{name}.c*"):
                    most = MOST_LINES_OF_SAMPLE if folder.parent.name == "samples" else MOST_LINES[program.suffix]
                    lines = [line for line in program.read_text().splitlines() if "SPDX-License-Identifier" not in line]
                    self.assertLessEqual(len(lines), most, program.name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
