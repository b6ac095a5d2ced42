# SPDX-License-Identifier: MIT
"""For the tests with packages of others: their import, and the programs of samples/torch_allocator."""
import importlib
import os
import subprocess
import sys

LIBRARY, SAMPLE = sys.argv[1:3]
ON_DEVICE = os.environ.get("GANTRY_TEST_DRIVER") == "cuda"


def import_or_skip(name, package):
    """The package, or the end of the program with its reason."""
    if any(tool in os.environ for tool in ("ASAN_OPTIONS", "TSAN_OPTIONS")):
        print("skipped: Python is not built with the sanitizer that the library needs", file=sys.stderr)
        sys.exit(77)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"skipped: {error}; `pip install {package}` brings it", file=sys.stderr)
        sys.exit(77)


def run_program(*arguments):
    """A program of the sample with the library that is tested."""
    environment = dict(os.environ, GANTRY_TORCH=LIBRARY, GANTRY_DRIVER="cuda")
    return subprocess.run([sys.executable, os.path.join(SAMPLE, arguments[0]), *arguments[1:]], capture_output=True, text=True,
                          timeout=250, check=False, env=environment)
