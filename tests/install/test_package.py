#!/usr/bin/env python3
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
PACKAGES = ["gantry-doc", "gantry-emu", "gantry-tools", "libgantry-dev", "libgantry0"]


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
        for name, wanted in (("libgantry0", ["/libgantry.so.0"]),
                             ("gantry-emu", ["/libgantry-emu.so", "/libgantry-proof.so", "/gantry-emu/libcuda.so.1", "/usr/include/gantry_emu.h"]),
                             ("libgantry-dev", ["/libgantry.so", "/usr/include/gantry/gantry.h", "/gantry-config.cmake",
                                                "/pkgconfig/gantry.pc"]),
                             ("gantry-tools", ["/usr/bin/gantry", "/libgantry-limit.so", "/man1/gantry.1.gz", "/bash-completion/completions/gantry"]),
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
            self.assertRegex(self.control[name], rf"\nDepends: .*libgantry0 \(= {re.escape(VERSION)}-1\)")
        self.assertRegex(self.control["libgantry0"], rf"\nDepends: .*gantry-emu \(= {re.escape(VERSION)}-1\)")
        for name in ("libgantry0", "gantry-emu"):
            self.assertRegex(self.control[name], r"\nDepends: .*libc6 \(>=")
        self.assertIn("Architecture: all\n", self.control["gantry-doc"])
        shlibs = (self.folder / "libgantry0/shlibs").read_text()
        self.assertEqual(shlibs, f"libgantry {VERSION.split('.')[0]} libgantry0 (= {VERSION}-1)\n")
        self.assertEqual((self.folder / "libgantry0/triggers").read_text(), "activate-noawait ldconfig\n")

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
        library = next(self.root.rglob("libgantry.so.0")).parent
        self.assertIn("look: 1000 of 1000", run(self.root / "usr/bin/gantry", "run", "hello_graph", GANTRY_DRIVER="emulated",
                                                 LD_LIBRARY_PATH=str(library)))

    def test_the_emulated_driver_stands_in_for_cudas(self):
        folder = next(self.root.rglob("gantry-emu/libcuda.so.1")).parent
        code = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); print(cuda.cuInit(0), cuda.gantry_emu_version())"
        self.assertRegex(run(sys.executable, "-c", code, LD_LIBRARY_PATH=str(folder)), r"^0 \d+\n$")

    def test_programs_are_built_with_the_development_files(self):
        build = self.folder / "consumer"
        run("cmake", "-S", SOURCE / "tests/install/consumer", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.root / 'usr'}")
        run("cmake", "--build", build)
        self.assertTrue(run(build / "consumer", GANTRY_DRIVER="emulated").endswith("0 wrong\n"))

    def test_lintian_has_no_complaint(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        for name in PACKAGES:
            result = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", self.files[name]],
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
