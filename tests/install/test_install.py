#!/usr/bin/env python3
"""Install into a new prefix, move the prefix, and build programs against it as a user would.

Usage: test_install.py SOURCE_DIR BUILD_DIR CC VERSION
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, CC, VERSION = sys.argv[1:5]
CONSUMER = pathlib.Path(SOURCE, "tests/install/consumer")


def run(*command, **environment):
    """stdout; raises with everything the command printed when it fails."""
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    if result.returncode != 0:
        raise AssertionError(f"{command}\n{result.stdout}")
    return result.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        # Nothing may remember where it was installed.
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.libraries = next(cls.prefix.glob("lib*/**/libgantry.so")).parent

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_command_finds_its_library(self):
        self.assertEqual(run(self.prefix / "bin/gantry", "--version"), f"gantry {VERSION}\n")
        self.assertIn("emulated", run(self.prefix / "bin/gantry", "info", "--driver", "emulated"))

    def test_command_has_photos(self):
        photos = self.prefix / "share/gantry/photos"
        if not photos.exists():
            self.skipTest("built without samples")
        for photo in photos.glob("*.png"):
            if photo.name != "chelsea.png":  # this copy of them is the one that is taken
                photo.unlink()
        out = self.folder / "out"
        shown = run("sh", "-c", 'cd / && exec "$@"', "sh", self.prefix / "bin/gantry", "run", "image_pipeline",
                    "--no-timeline", "--output", out, GANTRY_DRIVER="emulated")
        self.assertIn("1 of 1 photos", shown)
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["chelsea_edges.png", "chelsea_result.png"])

    def test_find_package(self):
        build = self.folder / "cmake-consumer"
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))

    def test_sources_within_another_project(self):
        build = self.folder / "subproject-consumer"
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DGANTRY_SOURCES={SOURCE}", "-DGANTRY_LTO=OFF")
        # No tests, samples or command: nothing of that is looked for, built, or packed.
        self.assertNotIn("gantry_command", run("cmake", "--build", build, "--target", "help"))
        self.assertFalse((build / "CPackConfig.cmake").exists())
        run("cmake", "--build", build, "--parallel", "2")
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))

    def test_find_package_refuses_another_version(self):
        project = self.folder / "wrong-version"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES C)\nfind_package(gantry 99 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, re.escape(VERSION)):
            run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_pkg_config(self):
        path = self.libraries / "pkgconfig"
        flags = run("pkg-config", "--cflags", "--libs", "gantry", PKG_CONFIG_PATH=str(path)).split()
        self.assertEqual(run("pkg-config", "--modversion", "gantry", PKG_CONFIG_PATH=str(path)), VERSION + "\n")
        source = self.folder / "version.c"
        source.write_text("#include <gantry/gantry.h>\n#include <stdio.h>\n"
                          "int main(void)\n{\n    puts(gantry_version());\n    return 0;\n}\n")
        program = self.folder / "version"
        run(CC, source, "-o", program, *flags)
        self.assertEqual(run(program, LD_LIBRARY_PATH=str(self.libraries)), VERSION + "\n")

    def test_only_public_files_are_there(self):
        for path in self.prefix.rglob("*"):
            if path.is_file():
                relative = str(path.relative_to(self.prefix))
                self.assertRegex(relative, r"^(bin/gantry$|include/gantry/|share/doc/gantry/|lib[^/]*/(.*/)?"
                                 r"(libgantry|cmake/gantry/|pkgconfig/gantry\.pc$)|share/gantry/photos/)")

    def test_nothing_points_into_the_build(self):
        for path in self.libraries.glob("libgantry*.so*"):
            self.assertNotIn(SOURCE.encode(), path.read_bytes(), path)
        # A sample in the command knows where its photographs are in the source tree.
        self.assertNotIn(BUILD.encode(), (self.prefix / "bin/gantry").read_bytes())
        for path in self.libraries.rglob("*.cmake"):
            self.assertNotIn(BUILD, path.read_text(), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
