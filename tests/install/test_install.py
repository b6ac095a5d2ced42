#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Install into a new prefix, move the prefix, and build programs against it as a user would.

Usage: test_install.py SOURCE_DIR BUILD_DIR CC VERSION
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, CC, VERSION = sys.argv[1:5]
CONSUMER = pathlib.Path(SOURCE, "tests/install/consumer")
# One jemalloc is enough for all builds of these sources.
JEMALLOC = "-D" + "".join(re.findall(r"(?m)^GANTRY_JEMALLOC_DIR:.*$", pathlib.Path(BUILD, "CMakeCache.txt").read_text()) or
                          ["GANTRY_JEMALLOC=INSTALLED"])
HAS_PHOTOS = pathlib.Path(BUILD, "photos").exists()


def run(*command, **environment):
    """stdout; raises with everything the command printed when it fails."""
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    if result.returncode != 0:
        raise AssertionError(f"{command}\n{result.stdout}")
    return result.stdout


def install_and_move(build, folder):
    """Nothing may remember where it was installed."""
    run("cmake", "--install", build, "--prefix", folder / "first")
    prefix = folder / "moved to here"
    (folder / "first").rename(prefix)
    return prefix


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gantry here and "))
        cls.prefix = install_and_move(BUILD, cls.folder)
        cls.libraries = next(cls.prefix.glob("lib*/**/libgantry.so")).parent

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_command_finds_its_library(self):
        self.assertEqual(run(self.prefix / "bin/gantry", "--version"), f"gantry {VERSION}\n")
        self.assertIn("emulated", run(self.prefix / "bin/gantry", "info", "--driver", "emulated"))

    def test_the_library_does_not_know_where_it_was_built(self):
        for folder in (SOURCE, BUILD):
            self.assertNotIn(os.fsencode(os.path.abspath(folder)), (self.libraries / "libgantry.so").read_bytes())

    def test_help_names_documents_that_are_there(self):
        path = pathlib.Path(re.search(r"What to do about each is in (.*)\.$", run(self.prefix / "bin/gantry", "help", "statuses"), re.M)[1])
        self.assertEqual(path.name, "errors.md")
        self.assertTrue(path.is_file(), path)
        self.assertIn(self.prefix, path.parents)

    @unittest.skipUnless(HAS_PHOTOS, "built without samples")
    def test_command_has_photos(self):
        photos = self.prefix / "share/gantry/photos"
        for photo in photos.glob("*.png"):
            if photo.name != "chelsea.png":  # this copy of them is the one that is taken
                photo.unlink()
        out = self.folder / "out"
        shown = run("sh", "-c", 'cd / && exec "$@"', "sh", self.prefix / "bin/gantry", "run", "image_pipeline",
                    "--no-timeline", "--output", out, GANTRY_DRIVER="emulated")
        self.assertIn("1 of 1 photos", shown)
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["chelsea_edges.png", "chelsea_result.png"])

    @unittest.skipUnless(HAS_PHOTOS, "built without samples")
    def test_missing_photos_are_told(self):
        prefix = self.folder / "without photos"
        shutil.copytree(self.prefix, prefix, symlinks=True, ignore=shutil.ignore_patterns("photos"))
        with self.assertRaisesRegex(AssertionError, r"without photos/bin/\.\./share/gantry/photos.* --input"):
            run(prefix / "bin/gantry", "run", "image_pipeline", "--output", self.folder / "none", GANTRY_DRIVER="emulated")

    @unittest.skipUnless(HAS_PHOTOS, "built without samples")
    def test_a_build_folder_may_be_moved(self):
        build = self.folder / "build moved to here"
        build.mkdir()
        for path in [pathlib.Path(BUILD, "gantry"), *pathlib.Path(BUILD).glob("libgantry*.so*")]:
            shutil.copy(path, build)
        (build / "photos").mkdir()
        shutil.copy(pathlib.Path(BUILD, "photos/chelsea.png"), build / "photos")
        shown = run("sh", "-c", 'cd / && exec "$@"', "sh", build / "gantry", "run", "image_pipeline", "--no-timeline",
                    "--output", self.folder / "out of build", GANTRY_DRIVER="emulated")
        self.assertIn("1 of 1 photos", shown)

    def test_find_package(self):
        build = self.folder / "cmake-consumer"
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))

    def test_sources_within_another_project(self):
        build = self.folder / "subproject-consumer"
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DGANTRY_SOURCES={SOURCE}", "-DGANTRY_LTO=OFF",
            "-DGANTRY_KERNEL_COMPILER=none", JEMALLOC)
        # No tests, samples or command: nothing of that is looked for, built, or packed.
        self.assertNotIn("gantry_command", run("cmake", "--build", build, "--target", "help"))
        self.assertFalse((build / "CPackConfig.cmake").exists())
        run("cmake", "--build", build, "--parallel", "2")
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))

    def test_sources_that_are_fetched(self):
        """It is built like the sources within another project; here what would be done is looked at."""
        build = self.folder / "fetching-consumer"
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DGANTRY_FETCHED={SOURCE}", "-DGANTRY_KERNEL_COMPILER=none", JEMALLOC)
        steps = run("cmake", "--build", build, "--target", "consumer", "--", "-n")
        self.assertIn("libgantry.so", steps)
        self.assertIn("libgantry-emu.so", run("cmake", "--build", build, "--", "-n"))
        self.assertRegex(steps, r"Linking CXX executable consumer")
        self.assertNotIn("cli/main.c", run("cmake", "--build", build, "--", "-n"))

    def test_find_package_refuses_another_version(self):
        project = self.folder / "wrong-version"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES C)\nfind_package(gantry 99 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, re.escape(VERSION)):
            run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_pkg_config(self):
        path = self.libraries / "pkgconfig"
        flags = run("pkg-config", "--cflags", "--libs", "gantry", PKG_CONFIG_PATH=str(path))
        self.assertEqual(run("pkg-config", "--modversion", "gantry", PKG_CONFIG_PATH=str(path)), VERSION + "\n")
        source = self.folder / "version.c"
        source.write_text("#include <gantry/gantry.h>\n#include <stdio.h>\n"
                          "int main(void)\n{\n    puts(gantry_version());\n    return 0;\n}\n")
        program = self.folder / "version"
        run(CC, source, "-o", program, *shlex.split(flags))
        self.assertEqual(run(program, LD_LIBRARY_PATH=str(self.libraries)), VERSION + "\n")

    def test_links_of_documents_lead_somewhere(self):
        documents = list((self.prefix / "share/doc/gantry").rglob("*.md"))
        self.assertGreater(len(documents), 15)
        dead, count = [], 0
        for document in documents:
            for link in re.findall(r"\]\(([^) \n]+)\)", document.read_text()):
                path = link.partition("#")[0]
                count += 1
                if path and not re.match(r"https?:", path) and not (document.parent / path).exists():
                    dead.append(f"{document.name}: {link}")
        self.assertEqual(dead, [])
        self.assertGreater(count, 50)
        readme = (self.prefix / "share/doc/gantry/README.md").read_text()
        self.assertIn("](docs/design/architecture.md)", readme)
        self.assertRegex(readme, r"\]\([./]*include/gantry\)")
        rooms = (self.prefix / "share/doc/gantry/docs/design/architecture.md").read_text()
        self.assertIn("| `base/` |", rooms)  # is not installed
        self.assertTrue((self.prefix / "share/doc/gantry/samples/hello_graph/hello_graph.c").exists())

    def test_only_public_files_are_there(self):
        for path in self.prefix.rglob("*"):
            if path.is_file():
                relative = str(path.relative_to(self.prefix))
                self.assertRegex(relative, r"^(bin/gantry$|include/gantry(/|_emu\.h$)|share/doc/gantry/|lib[^/]*/(.*/)?"
                                 r"(libgantry|gantry-emu/libcuda\.so\.1$|cmake/gantry/|pkgconfig/gantry\.pc$)|share/gantry/photos/|share/man/man(1/gantry|3/gantry_\w+)\.[13]$|share/bash-completion/completions/gantry$|"
                                 r"share/zsh/vendor-completions/_gantry$|share/fish/vendor_completions\.d/gantry\.fish$)")

    def test_nothing_points_into_the_build(self):
        for path in [self.prefix / "bin/gantry", *self.libraries.glob("libgantry*.so*")]:
            self.assertNotIn(SOURCE.encode(), path.read_bytes(), path)
        for path in self.libraries.rglob("*.cmake"):
            self.assertNotIn(BUILD, path.read_text(), path)


class StaticInstall(unittest.TestCase):
    """The same with BUILD_SHARED_LIBS=OFF, where the compiler and the libraries are those of the shared one."""
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gantry static "))
        build = cls.folder / "build"
        run("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", "-DBUILD_SHARED_LIBS=OFF", "-DGANTRY_KERNEL_COMPILER=none",
            "-DGANTRY_BUILD_TESTS=OFF", "-DGANTRY_BUILD_COMMAND=OFF", "-DGANTRY_BUILD_SAMPLES=OFF",
            "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_COMPILER={CC}")
        run("cmake", "--build", build, "--parallel", "2")
        cls.prefix = install_and_move(build, cls.folder)
        shutil.rmtree(build)
        cls.libraries = next(cls.prefix.glob("lib*/**/libgantry.a")).parent

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_there_is_no_shared_library_but_those_that_are_opened(self):
        self.assertEqual({path.name for path in self.libraries.glob("*.so*")}, {"libgantry-emu.so", "libgantry-proof.so", "libgantry-torch.so"})

    def test_no_name_can_be_another_ones(self):
        names = run("nm", "--defined-only", "--extern-only", "--format=posix", self.libraries / "libgantry.a")
        defined = re.findall(r"^(\S+) [A-Z] ", names, re.M)
        self.assertGreater(len(defined), 500)
        self.assertEqual([name for name in defined if not re.match(r"gantry_|gy_|DW\.ref\.", name)], [])

    def test_find_package(self):
        build = self.folder / "cmake consumer"
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DGANTRY_KERNEL_COMPILER=none")
        run("cmake", "--build", build)
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))
        needed = re.findall(r"\(NEEDED\).*\[(lib[a-z]+)", run("readelf", "-d", build / "consumer"))
        self.assertNotIn("libgantry", needed)
        if "libjemalloc" in needed:  # malloc() stays the C library's
            self.assertLess(needed.index("libc"), needed.index("libjemalloc"))

    def test_pkg_config(self):
        shown = run("pkg-config", "--cflags", "--libs", "gantry", PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"))
        source = self.folder / "version.c"
        source.write_text("#include <gantry/gantry.h>\n#include <stdio.h>\n"
                          "int main(void)\n{\n    gantry_context *context;\n"
                          "    if (gantry_context_create(NULL, &context) == GANTRY_OK) {\n"
                          "        gantry_context_destroy(context);\n        puts(gantry_version());\n    }\n"
                          "    return 0;\n}\n")
        program = self.folder / "version"
        run(CC, source, "-o", program, *shlex.split(shown))
        self.assertEqual(run(program, GANTRY_DRIVER="emulated", LD_LIBRARY_PATH=str(self.libraries)), VERSION + "\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
