# SPDX-License-Identifier: MIT
"""What looks.py finds on pages in Firefox: it loads them from a server of ours, with a script that sends back what it has found."""
import functools
import http.server
import json
import shutil
import subprocess
import tempfile
import threading

import looks

NAMES = ("firefox", "firefox-esr")
HEAD = """<script>window.theErrors = [];
addEventListener("error", event => event.message && theErrors.push(event.message));
addEventListener("unhandledrejection", event => theErrors.push(String(event.reason)));</script>"""
# The picture comes when the script has said what it found: until then the page is not loaded, and Firefox does not end.
TAIL = """<img src="/when-said" alt="" style="display: none"><script>setTimeout(() => fetch("/said",
{method: "POST", body: JSON.stringify(theErrors.concat(%s))}), 500);</script>""" % looks.SCRIPT


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/when-said":
            self.server.said.wait(30)
            self.send_error(404)
        elif self.path.endswith(".html"):
            with open(self.translate_path(self.path), encoding="utf-8") as file:
                page = file.read().replace("<head>", "<head>" + HEAD, 1) + TAIL
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())
        else:
            super().do_GET()

    def do_POST(self):
        self.server.found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.said.set()

    def log_message(self, *_):
        pass


def problems(folder, *pages):
    """Of files in a folder, in both sizes, light and dark: lines that say where and what."""
    wrong = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for page in pages:
            for width, height in looks.SIZES:
                for dark in (False, True):
                    server.found, server.said = ["it said nothing"], threading.Event()
                    with tempfile.TemporaryDirectory() as profile:
                        with open(profile + "/user.js", "w", encoding="ascii") as settings:
                            settings.write(f'user_pref("layout.css.prefers-color-scheme.content-override", {0 if dark else 1});\n')
                        subprocess.run([find(), "--headless", "--profile", profile, f"--window-size={width},{height}", "--screenshot",
                                        profile + "/picture.png", f"http://127.0.0.1:{server.server_port}/{page}"], check=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100)
                    wrong += [f"{page} in {width} x {height}, {'dark' if dark else 'light'}: {what}" for what in server.found]
        server.shutdown()
    return wrong
