# SPDX-License-Identifier: MIT
"""Running a sample, for the tests of samples; the command `gantry` is the first argument of each."""
import os
import subprocess
import sys

GANTRY = sys.argv.pop(1)
DRIVER = os.environ.get("GANTRY_TEST_DRIVER", "emulated")


def run_sample(*arguments, stderr=subprocess.PIPE, **environment):
    """`gantry run` with these arguments on the driver that is to be tested."""
    return subprocess.run([GANTRY, "run", *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=250,
                          check=False, env={**os.environ, "GANTRY_DRIVER": DRIVER, **environment})
