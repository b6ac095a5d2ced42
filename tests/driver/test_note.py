#!/usr/bin/env python3
"""A program that gets the emulated driver for want of a GPU says so once, unless somebody chose what is logged.

Usage: test_note.py PROGRAM (it makes a context and prints nothing on stderr)
"""
import os
import subprocess
import sys

NOTE = "gantry: note: running on the emulated driver, without a GPU ("


def stderr_of(program, **environment):
    """What PROGRAM writes to stderr where no GPU is to be seen."""
    kept = {k: v for k, v in os.environ.items() if k not in ("GANTRY_CHECK", "GANTRY_DRIVER", "GANTRY_LOG", "GANTRY_TEST_DRIVER")}
    run = subprocess.run([program], env={**kept, "CUDA_VISIBLE_DEVICES": "", **environment}, capture_output=True, text=True, timeout=60, check=True)
    return run.stderr


def main():
    program = sys.argv[1]
    said = stderr_of(program)
    lines = said.splitlines()
    assert len(lines) == 1 and lines[0].startswith(NOTE), said
    assert stderr_of(program, GANTRY_DRIVER="emulated") == ""
    assert stderr_of(program, GANTRY_LOG="error") == ""
    checked = stderr_of(program, GANTRY_CHECK="bonds").splitlines()  # what a check has to say is seen unasked
    assert len(checked) == 2 and any(line.startswith("gantry: warning: $GANTRY_CHECK has \"bonds\"") for line in checked), checked
    assert any(line.startswith(NOTE) for line in checked), checked
    assert stderr_of(program, GANTRY_CHECK="bonds", GANTRY_LOG="error") == ""
    assert "gantry: info: running on the emulated driver" in stderr_of(program, GANTRY_LOG="info")


main()
