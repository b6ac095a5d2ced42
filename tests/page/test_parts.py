#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_parts.py SOURCE: the parts of the page that need no window, in node or else in Chromium."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import browser

SOURCE = sys.argv[1]
FOLDER = os.path.join(SOURCE, "cli", "page")


def scripts():
    """The page's scripts as the command has them, without the start of the page."""
    with open(os.path.join(SOURCE, "cli", "CMakeLists.txt"), encoding="utf-8") as file:
        names = re.search(r"set\(page_scripts ([^)]*)\)", file.read()).group(1).split()
    assert sorted(names) == sorted(n for n in os.listdir(FOLDER) if n.endswith(".js")), names
    text = "".join(open(os.path.join(FOLDER, name), encoding="utf-8").read() for name in names if name != "main.js")
    return text + open(os.path.join(os.path.dirname(__file__), "parts.js"), encoding="utf-8").read()


with tempfile.TemporaryDirectory() as folder:
    if shutil.which("node"):
        path = os.path.join(folder, "parts.js")
        with open(path, "w", encoding="utf-8") as file:
            file.write(scripts() + "console.log(JSON.stringify(testParts()));\n")
        failures = json.loads(subprocess.run(["node", path], check=True, capture_output=True, text=True, timeout=100).stdout)
    elif browser.find():
        path = os.path.join(folder, "parts.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write("<!doctype html><meta charset=utf-8><script>" + scripts() + "</script>")
        with browser.Browser() as page:
            page.open(path)
            failures = page.evaluate("testParts()")
    else:
        print("skipped: there is neither node nor chromium")
        sys.exit(77)
for failure in failures:
    print(failure)
sys.exit(len(failures) > 0)
