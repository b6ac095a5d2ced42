#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each step of docs/guides/porting-from-cuda.md builds, and prints what the page says.

Usage: check_porting.py SOURCE_DIR LIBRARY_DIR CC CXX

Steps 3 to 5 are built against the installed library, and run.  Steps 1 and 2 are compiled where nvcc is found, and run
where the tests use a device.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, LIBRARIES = map(pathlib.Path, sys.argv[1:3])
CC, CXX = sys.argv[3:5]
DRIVER = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
PAGE = (SOURCE / "docs/guides/porting-from-cuda.md").read_text()
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


class Porting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.expected = re.search(r"print\n\n```text\n(.*?)```", PAGE, re.S)[1]
        run("cmake", "--install", LIBRARIES, "--prefix", cls.folder / "prefix")

    def test_the_page_names_each_step(self):
        steps = {path.name for path in (SOURCE / "docs/guides/porting").glob("*.c*")}
        self.assertEqual(steps, {"histogram.cu", "step1.cu", "step2.cu", "step3.cpp", "step4.cpp", "step5.cpp"})
        self.assertEqual(set(re.findall(r"\]\(porting/([\w.]+)\)", PAGE)), steps)

    def test_steps_3_to_5_run(self):
        compiler = ["-DGANTRY_KERNEL_COMPILER=none"] if DRIVER == "emulated" else []
        run("cmake", "-G", "Ninja", "-S", SOURCE / "docs/guides/porting", "-B", self.folder / "build", f"-DCMAKE_PREFIX_PATH={self.folder / 'prefix'}",
            f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *compiler)
        run("cmake", "--build", self.folder / "build")
        for step in ("step3", "step4", "step5"):
            with self.subTest(step):
                said = subprocess.run([self.folder / "build" / step], env={**os.environ, "GANTRY_DRIVER": DRIVER}, stdout=subprocess.PIPE, text=True, check=True)
                self.assertEqual(said.stdout, self.expected)

    def test_steps_1_and_2_are_cuda(self):
        if not NVCC:
            self.skipTest("there is no nvcc, which compiles them")
        library = next((self.folder / "prefix").rglob("libgantry.so"))
        for step in ("step1", "step2"):
            with self.subTest(step):
                program = self.folder / step
                run(NVCC, "-std=c++17", "-I", SOURCE / "include", SOURCE / f"docs/guides/porting/{step}.cu", "-L", library.parent, "-lgantry",
                    "-Xlinker", f"-rpath={library.parent}", "-o", program)
                if DRIVER == "cuda":
                    self.assertEqual(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout, self.expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
