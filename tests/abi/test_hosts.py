#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in processes that were not linked with it: opened, used and closed, again and again.

Usage: test_hosts.py BUILD_DIR [--all]

Eight kinds of processes: a C one, a C++ one, Python, a library opened by another one, 20 big libraries loaded before,
a program with jemalloc linked, a host of modules, and a thread that ends after each dlclose().  10 rounds of each (4
seconds), with --all 1000; no process crashes, and none grows by 1 MiB.  And dlclose() with contexts alive, a scanner that
opens a module in a forked child first, as media frameworks do, and sandboxes.  No GLIBC_TUNABLES.
"""
import glob
import os
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = 1000 if "--all" in sys.argv else 10
LIBRARY, HOSTS = BUILD / "libgantry.so", BUILD / "tests/hosts"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("GLIBC_TUNABLES", "LD_PRELOAD", "LD_LIBRARY_PATH")}
PYTHON = """
import ctypes, sys, _ctypes
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4
rounds, number = int(sys.argv[1]), ctypes.CFUNCTYPE(ctypes.c_int)
ctypes.CDLL(sys.argv[3])
warm = min(rounds, 100)
for i in range(warm + rounds):
    if i == warm:
        before = resident()
    module = _ctypes.dlopen(sys.argv[2], 0)  # a CDLL of each round makes a class, which is Python's growth
    assert number(_ctypes.dlsym(module, "module_work"))() == 42
    _ctypes.dlclose(module)
print(resident() - before)
"""

SANDBOXES = {"everything read-only": "mount -o remount,bind,ro /", "no /proc": "mount -t tmpfs none /proc",
             "neither /proc nor /sys": "mount -t tmpfs none /proc && mount -t tmpfs none /sys",
             "64 KiB of /dev/shm": "mount -t tmpfs -o size=64k none /dev/shm"}
SCANNER = """
import ctypes, os, sys
child = os.fork()
if child == 0:
    ctypes.CDLL(sys.argv[1], os.RTLD_LAZY | os.RTLD_LOCAL)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert ctypes.CDLL(sys.argv[1], os.RTLD_LAZY | os.RTLD_LOCAL).module_work() == 42
print(0)
"""


def play(*command, **environment):
    """(exit status, what it printed) of a process."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**ENVIRONMENT, **environment})
    return result.returncode, result.stdout + result.stderr


def big_libraries(most):
    """The largest libraries of this machine that can be loaded together."""
    known = {os.path.realpath(path) for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
             for path in glob.glob(folder + "/lib*.so*")}
    # Runtimes of sanitizers end a program that was not built for them; jemalloc takes what room there is for itself.
    left_out = ("libasan", "libtsan", "liblsan", "libhwasan", "libubsan", "libjemalloc", "libgantry", "libc.so", "libcuda", "libmemusage", "libpcprofile")
    files = sorted((path for path in known if os.path.isfile(path) and not os.path.basename(path).startswith(left_out)),
                   key=os.path.getsize, reverse=True)
    taken = []
    for path in files[:3 * most]:
        opens = "import ctypes, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path, ctypes.RTLD_GLOBAL)"
        if len(taken) < most and play(sys.executable, "-c", opens, *taken, path)[0] == 0:
            taken.append(path)
    return taken


class Hosts(unittest.TestCase):
    def good(self, *command, **environment):
        status, text = play(*command, **environment)
        self.assertEqual(status, 0, f"{command}: {text}")
        self.assertLess(int(text.split()[-1]), 1024, f"{command}: KiB grown")

    def test_a_c_program(self):
        self.good(HOSTS / "host", "once", ROUNDS, LIBRARY)

    def test_a_cxx_program(self):
        self.good(HOSTS / "host_cxx", "once", ROUNDS, LIBRARY)

    def test_python(self):
        self.good(sys.executable, "-c", PYTHON, ROUNDS, HOSTS / "module.so", LIBRARY)

    def test_a_library_opened_by_another(self):
        self.good(HOSTS / "host", "module", ROUNDS, HOSTS / "outer.so")

    def test_behind_big_libraries(self):
        before = big_libraries(20)
        self.assertGreaterEqual(len(before), 10, before)
        self.good(HOSTS / "host", "once", ROUNDS, LIBRARY, *before)

    def test_a_program_with_jemalloc(self):
        if not (HOSTS / "host_jemalloc").exists():
            self.skipTest("libjemalloc.so is not installed")
        # What the program's own jemalloc keeps for later is not ours to count.
        self.good(HOSTS / "host_jemalloc", "once", ROUNDS, LIBRARY, MALLOC_CONF="dirty_decay_ms:0,muzzy_decay_ms:0")

    def test_a_host_of_modules(self):
        self.good(HOSTS / "host", "module", ROUNDS, HOSTS / "module.so")

    def test_threads_that_end_behind_it(self):
        self.good(HOSTS / "host", "threads", ROUNDS, LIBRARY)

    def test_a_scanner_before_the_host(self):
        self.good(sys.executable, "-c", SCANNER, HOSTS / "module.so")

    def test_in_sandboxes(self):
        sandbox = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
        for name, mounts in SANDBOXES.items():
            with self.subTest(name):
                if play(*sandbox, mounts)[0] != 0:
                    self.skipTest("there are no mount namespaces here")
                self.good(*sandbox, mounts + ' && exec "$@"', "sh", HOSTS / "host", "module", 10, HOSTS / "module.so")

    def test_contexts_that_are_alive(self):
        status, text = play(HOSTS / "host", "alive", 3, LIBRARY)
        self.assertEqual(status, 0, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
