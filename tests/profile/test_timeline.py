#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_timeline.py SCRIPT GANTRY PHOTO: the sample timeline records a real run and writes every format."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SCRIPT, GANTRY, PHOTO = sys.argv[1:4]

with tempfile.TemporaryDirectory() as folder:
    photos, out = os.path.join(folder, "photos"), os.path.join(folder, "out")
    os.mkdir(photos)
    shutil.copy(PHOTO, photos)
    driver = os.environ.get("GANTRY_TEST_DRIVER", "emulated")
    subprocess.run([SCRIPT, GANTRY, out, "--input", photos, "--driver", driver], check=True, capture_output=True)
    with open(os.path.join(out, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    kernels = {k["name"]: k["ctas"] for k in report["kernels"]}
    assert len(kernels) == 9 and "batched copies" in kernels, kernels  # a histogram is cleared by them
    assert report["ctas"]["lost"] == 0
    assert report["ctas"]["recorded"] == sum(kernels.values())
    with open(os.path.join(out, "timeline.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert sum(e["ph"] == "X" and e["cat"] == "cta" for e in events) == report["ctas"]["recorded"]
    launches = {e["id"] for e in events if e["ph"] == "s"}
    ends = {e["id"] for e in events if e["ph"] == "f"}
    assert ends and ends <= launches, "an arrow without a beginning"
    assert os.path.getsize(os.path.join(out, "timeline.html")) > 10000
    with open(os.path.join(out, "report.txt"), encoding="utf-8") as file:
        assert "luminance" in file.read()
