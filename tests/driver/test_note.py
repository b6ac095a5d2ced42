#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a program says unasked, unless somebody chose what is logged: that it got the emulated driver for want of a GPU, once; what $GANTRY_CHECK
finds; that $GANTRY_PROFILE records nothing; that a tool for NVTX cannot be used; and which variables are not read any more.

Usage: test_note.py PROGRAM FAKE (PROGRAM makes a context and prints nothing on stderr; FAKE is a CUDA driver that can be told to have no device)
"""
import os
import subprocess
import sys
import tempfile

NOTE = "gantry: note: running on the emulated driver, without a GPU ("


def stderr_of(program, **environment):
    """What PROGRAM writes to stderr where no GPU is to be seen: the driver in $LD_LIBRARY_PATH has none."""
    kept = {k: v for k, v in os.environ.items() if k not in ("GANTRY_CHECK", "GANTRY_DRIVER", "GANTRY_LOG", "GANTRY_TEST_DRIVER")}
    run = subprocess.run([program], env={**kept, "FAKE_DRIVER_INIT": "100", **environment}, capture_output=True, text=True, timeout=60, check=True)
    return run.stderr


def main():
    program = sys.argv[1]
    folder = tempfile.TemporaryDirectory()
    os.symlink(sys.argv[2], os.path.join(folder.name, "libcuda.so.1"))
    os.environ["LD_LIBRARY_PATH"] = folder.name
    said = stderr_of(program)
    lines = said.splitlines()
    assert len(lines) == 1 and lines[0].startswith(NOTE), said
    assert stderr_of(program, GANTRY_DRIVER="emulated") == ""
    assert stderr_of(program, GANTRY_LOG="error") == ""
    checked = stderr_of(program, GANTRY_CHECK="bonds").splitlines()  # what a check has to say is seen unasked
    assert len(checked) == 2 and any(line.startswith("gantry: warning: $GANTRY_CHECK has \"bonds\"") for line in checked), checked
    assert any(line.startswith(NOTE) for line in checked), checked
    assert stderr_of(program, GANTRY_CHECK="bonds", GANTRY_LOG="error") == ""
    for wrong, why in (({"GANTRY_PROFILE": "/no/such/folder/run.pftrace"}, "/no/such/folder/run.pftrace: No such file or directory"),
                       ({"GANTRY_PROFILE": "run.pftrace", "GANTRY_PROFILE_OPTIONS": "blocks=what"}, "blocks")):
        lines = stderr_of(program, GANTRY_DRIVER="emulated", **wrong).splitlines()
        assert len(lines) == 1 and lines[0].startswith("gantry: note: nothing is recorded into $GANTRY_PROFILE: ") and why in lines[0], lines
    lines = stderr_of(program, GANTRY_DRIVER="emulated", GANTRY_NVTX="/no/such/tool.so").splitlines()
    assert len(lines) == 1 and lines[0].startswith("gantry: note: no NVTX ranges: /no/such/tool.so: "), lines
    for old, instead in (("GANTRY_HANDLE_CHECK", "GANTRY_CHECK=handles"), ("GANTRY_HEAP_CHECK", "GANTRY_CHECK=frees"), ("GANTRY_NVML", "libnvidia-ml.so.1"),
                         ("GANTRY_NVTX_ALWAYS", "$NVTX_INJECTION64_PATH"), ("GANTRY_QUOTA_CONTROLLER", "CUDA_DEVICE_SM_LIMIT")):
        lines = stderr_of(program, GANTRY_DRIVER="emulated", **{old: "1"}).splitlines()
        assert len(lines) == 1 and lines[0].startswith(f"gantry: note: ${old} is not read any more: ") and instead in lines[0], lines
        assert stderr_of(program, GANTRY_DRIVER="emulated", GANTRY_LOG="error", **{old: "1"}) == ""
    assert "gantry: info: running on the emulated driver" in stderr_of(program, GANTRY_LOG="info")


main()
