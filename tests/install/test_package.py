#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Debian packages hold what they should, depend on what they need, and please lintian.

Usage: test_package.py BUILD_DIR VERSION
"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, VERSION = sys.argv[1:3]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
CONFIG = pathlib.Path(BUILD, "CPackConfig.cmake")
RUNTIME = "libgantry" + (VERSION.rpartition(".")[0] if VERSION.startswith("0.") else VERSION.partition(".")[0])  # as its SONAME
PACKAGES = ["gantry-doc", "gantry-emu", "gantry-tools", "libgantry-dev", RUNTIME]


def run(*command, **environment):
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **environment})
    if result.returncode != 0:
        raise AssertionError(f"{command}\n{result.stdout}")
    return result.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        run("sh", "-c", 'umask 077; exec "$@"', "sh", "cpack", "-G", "DEB", "-B", cls.folder, "--config", CONFIG)
        cls.files = {path.name.split("_")[0]: path for path in cls.folder.glob("*.deb")}
        cls.root = cls.folder / "root"  # all of them, unpacked
        cls.control = {}
        for name, path in cls.files.items():
            run("dpkg-deb", "--extract", path, cls.root)
            run("dpkg-deb", "--control", path, cls.folder / name)
            cls.control[name] = (cls.folder / name / "control").read_text()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def contents(self, name):
        return run("dpkg-deb", "--contents", self.files[name])

    def test_each_package_has_its_part(self):
        self.assertEqual(sorted(self.files), PACKAGES)
        for name, wanted in ((RUNTIME, [RUNTIME.replace("libgantry", "/libgantry.so."), f"/libgantry-thread.so.{VERSION}"]),
                             ("gantry-emu", ["/libgantry-emu.so", "/libgantry-proof.so", "/gantry-emu/libcuda.so.1", "/usr/include/gantry_emu.h"]),
                             ("libgantry-dev", ["/libgantry.so", "/usr/include/gantry/gantry.h", "/gantry-config.cmake",
                                                "/pkgconfig/gantry.pc"]),
                             ("gantry-tools", ["/usr/bin/gantry", "/libgantry-limit.so", "/libgantry-limit-check.so", "/man1/gantry.1.gz", "/bash-completion/completions/gantry"]),
                             ("gantry-doc", ["/doc/gantry/README.md", "/doc/gantry/samples/hello_graph/hello_graph.c"])):
            paths = [re.sub(r" -> .*", "", line).split()[-1] for line in self.contents(name).splitlines()]
            for end in wanted:
                self.assertEqual(len([path for path in paths if path.endswith(end)]), 1, f"{name}: {end}")
        files = [path for name in PACKAGES for path in re.findall(r"(?m)^[^d].* (\./\S+)(?: -> .*)?$", self.contents(name))]
        self.assertEqual(len(files), len(set(files)))  # none is in two

    def test_what_they_depend_on(self):
        for name in PACKAGES:
            self.assertIn(f"\nVersion: {VERSION}-1\n", self.control[name])
            self.assertRegex(self.control[name], r"(?m)^Description: [a-z].{10,60}\n (Gantry turns|A CUDA driver in) ")
        for name in ("libgantry-dev", "gantry-tools"):
            self.assertRegex(self.control[name], rf"\nDepends: .*{re.escape(RUNTIME)} \(= {re.escape(VERSION)}-1\)")
        self.assertRegex(self.control[RUNTIME], rf"\nDepends: .*gantry-emu \(= {re.escape(VERSION)}-1\)")
        for name in (RUNTIME, "gantry-emu"):
            self.assertRegex(self.control[name], r"\nDepends: .*libc6 \(>=")
        self.assertIn("Architecture: all\n", self.control["gantry-doc"])
        shlibs = (self.folder / RUNTIME / "shlibs").read_text()
        self.assertEqual(sorted(shlibs.splitlines()), [f"libgantry {RUNTIME.removeprefix('libgantry')} {RUNTIME} (= {VERSION}-1)",
                                                     f"libgantry-thread {VERSION} {RUNTIME} (= {VERSION}-1)"])
        self.assertEqual((self.folder / RUNTIME / "triggers").read_text(), "activate-noawait ldconfig\n")

    def test_permissions_do_not_depend_on_who_packs(self):
        for name in PACKAGES:
            for line in self.contents(name).splitlines():
                self.assertRegex(line, r"^(drwxr-xr-x|lrwxrwxrwx|-rw-r--r--|-rwxr-xr-x .*/bin/)", name)

    def check_compressed(self, path, text):
        data = path.read_bytes()
        self.assertEqual(gzip.decompress(data), text, path.name)
        # No name and no time, so that the same text makes the same bytes; the best compression.
        self.assertEqual(data[3:9], b"\0\0\0\0\0\2", path.name)

    def test_documents_are_as_policy_wants_them(self):
        doc = self.root / "usr/share/doc"
        for name in PACKAGES:
            self.assertIn("MIT License", (doc / name / "copyright").read_text())
            self.check_compressed(doc / name / "changelog.gz", (SOURCE / "CHANGELOG.md").read_bytes())
            self.assertIn(f"gantry ({VERSION}-1)", gzip.decompress((doc / name / "changelog.Debian.gz").read_bytes()).decode())
        if (self.root / "usr/share/gantry/photos").exists():
            self.assertIn("CC0 1.0", (doc / "gantry-tools/copyright").read_text())
        self.check_compressed(self.root / "usr/share/man/man1/gantry.1.gz", pathlib.Path(BUILD, "gantry.1").read_bytes())
        self.assertTrue((doc / "gantry/LICENSE").resolve().exists())

    def test_the_command_runs_with_the_systems_library(self):
        self.assertNotRegex(run("readelf", "-d", self.root / "usr/bin/gantry"), "RPATH|RUNPATH")
        library = next(self.root.rglob("libgantry.so." + RUNTIME.removeprefix("libgantry"))).parent
        self.assertIn("look: 1000 of 1000", run(self.root / "usr/bin/gantry", "run", "hello_graph", GANTRY_DRIVER="emulated",
                                                 LD_LIBRARY_PATH=str(library)))

    def test_the_emulated_driver_stands_in_for_cudas(self):
        folder = next(self.root.rglob("gantry-emu/libcuda.so.1")).parent
        code = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); print(cuda.cuInit(0), cuda.gantry_emu_version())"
        self.assertRegex(run(sys.executable, "-c", code, LD_LIBRARY_PATH=str(folder)), r"^0 \d+\n$")

    def test_what_debuggers_need_is_in_packages_of_its_own(self):
        for name, end in ((RUNTIME, f"libgantry.so.{VERSION}"), ("gantry-emu", "libgantry-emu.so"), ("gantry-tools", "bin/gantry")):
            path = next(path for path in (self.root / "usr").rglob("*") if path.as_posix().endswith(end))
            self.assertNotRegex(run("readelf", "-SW", path), r" \.(debug_info|symtab) ", name)
            number = re.search(r"Build ID: (\w\w)(\w+)", run("readelf", "-n", path))
            package = next(self.folder.glob(f"{name}-dbgsym_*.ddeb"))
            self.assertIn(f"\n Package: {name}-dbgsym\n", run("dpkg-deb", "--info", package))
            self.assertIn(f"\n Depends: {name} (= {VERSION}-1)\n", run("dpkg-deb", "--info", package))
            run("dpkg-deb", "--extract", package, self.folder / "debug")
            run("dpkg-deb", "--control", package, self.folder / "debug-control")
            run("sh", "-c", f"cd {self.folder / 'debug'} && md5sum --check {self.folder / 'debug-control/md5sums'}")
            symbols = self.folder / f"debug/usr/lib/debug/.build-id/{number[1]}/{number[2]}.debug"
            self.assertRegex(run("readelf", "-SW", symbols), r" \.debug_info ", name)

    def test_the_library_is_small(self):
        """Kernels of four kinds of devices are in it, compressed.  A debug build has more code, and one kind."""
        most = 3.5 if "CMAKE_BUILD_TYPE:STRING=Debug" in pathlib.Path(BUILD, "CMakeCache.txt").read_text() else 3
        self.assertLessEqual(next(self.root.rglob(f"libgantry.so.{VERSION}")).stat().st_size / 2**20, most)

    def test_programs_are_built_with_the_development_files(self):
        build = self.folder / "consumer"
        run("cmake", "-S", SOURCE / "tests/install/consumer", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.root / 'usr'}")
        run("cmake", "--build", build)
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))

    def test_lintian_has_no_complaint(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        for name in [*self.files.values(), *self.folder.glob("*.ddeb")]:
            result = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", name],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual((result.returncode, result.stdout), (0, ""), name)

    def test_tools_that_are_missing_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            told = subprocess.run([shutil.which("cpack"), "-G", "DEB", "-B", folder, "--config", CONFIG], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PATH": folder})
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("sudo apt-get install dpkg-dev file", told.stdout)


if __name__ == "__main__":
    for tool, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file"), ("gzip", "gzip")):
        if not shutil.which(tool):
            print(f"skipped: {tool} (package {package}) is missing", file=sys.stderr)
            sys.exit(77)
    unittest.main(argv=sys.argv[:1])
