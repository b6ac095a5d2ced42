#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The documents become a site: every link leads somewhere, pages need no server, and what is wrong is named.

Usage: check_site.py SOURCE_DIR

Exits with 77 where Doxygen or the Python packages of the site are not installed.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.path[:0] = [str(SOURCE / "tools/site"), str(SOURCE / "tests/page")]
import browser  # noqa: E402
import firefox  # noqa: E402
import looks  # noqa: E402
import site_pages  # noqa: E402


NODE = shutil.which("node")
# What somebody types, and the pages of Learn and Do that answer it.
QUESTIONS = {
    "two tenants": "partitions", "cuda graph": "dispatcher", "out of memory": "heap", "pytorch": "python", "python": "python", "install": "install",
    "multiple gpus": "fleet", "several machines": "fleet", "vulkan": "frames", "opengl": "frames", "cublas": "interop", "existing cuda code": "interop",
    "without a gpu": "emulator", "missing edge": "edges", "race condition": "edges", "profiling": "profiling", "nsight": "nvtx", "c++": "cpp",
    "pinned memory": "heap", "real time": "waiting", "kernel launch overhead": "dispatcher", "cudaDeviceSynchronize": "checking",
    "copy many small buffers": "copies", "first program": "first-program", "limit gpu share": "limits", "deadlock": "heap",
    "cooperative groups": "launching",
}


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.problems = site_pages.build(SOURCE, cls.folder)

    def page(self, name):
        return (self.folder / "html" / name).read_text()

    def test_all_links_lead_somewhere(self):
        self.assertEqual(self.problems, [])
        count, wrong = site_pages.check_links((self.folder / "html").resolve())
        self.assertEqual(wrong, [])
        self.assertGreater(count, 5000)

    def test_every_document_and_header_has_a_page(self):
        for path in set(SOURCE.glob("docs/**/*.md")) - set(SOURCE.glob("docs/decisions/*")):
            name = path.relative_to(SOURCE).with_suffix(".html").as_posix().replace("docs/README.html", "index.html")
            self.assertTrue((self.folder / "html" / name).exists(), name)
        self.assertTrue('id="c.gantry_task_start_after"' in self.page("docs/reference/task.h.html"), "the function has no anchor")
        self.assertTrue("reference/task.h.html#c.gantry_task_start_after" in self.page("docs/guides/tasks.html"), "the guide has no link to the function")

    def test_the_sidebar_has_four_groups_and_each_page_is_in_one_place(self):
        sidebar = re.search(r'(?s)class="sidebar-tree">.*?</aside>', self.page("index.html"))[0]
        self.assertEqual(re.findall(r'class="caption-text">(.*?)<', sidebar), ["Learn", "Do", "Look up", "Understand"])
        self.assertLessEqual(len(re.findall(r'<li class="toctree-l1', sidebar)), 40)
        pages = re.findall(r'<a class="reference internal" href="([^"#]+)"', sidebar)
        self.assertGreater(len(pages), 40)
        self.assertEqual(len(set(pages)), len(pages))
        self.assertEqual([page for page in pages if "decisions/" in page], [])
        for short in ("Why, and compared with what", "From Python", "Waiting"):
            self.assertIn(f">{short}</a>", sidebar)

    def test_old_addresses_lead_to_where_the_text_is(self):
        for old, new in (("docs/guides/common-mistakes", "checking.html"), ("docs/lab/performance", "../results/README.html"),
                         ("docs/design/waiting", "threading.html"), ("docs/design/heap", "memory.html"),
                         ("docs/decisions/0001-option-structs-carry-their-size", "../design/architecture.html")):
            self.assertTrue(f'content="0; url={new}"' in self.page(f"{old}.html"), old)
            self.assertTrue((self.folder / "html" / old).parent.joinpath(new).exists(), new)

    def test_the_search_finds_a_page_that_says_how(self):
        """By the ranks that are computed here, and in the site's own search where node runs it."""
        python, tools = site_pages.find_python()[0], SOURCE / "tools/site/search.py"
        ways = [[python, "-B", tools]] + ([[NODE, SOURCE / "tests/docs/search_in_node.js"]] if NODE else [])
        for way in ways:
            said = subprocess.run([*way, self.folder / "html", *QUESTIONS], check=True, stdout=subprocess.PIPE, text=True).stdout
            first = {query: pages[0] for query, pages in json.loads(said).items() if pages}
            self.assertEqual({query: first.get(query, "").rpartition("/")[2] for query in QUESTIONS}, QUESTIONS, way[0])
            for page in first.values():
                self.assertRegex(page, "^docs/(guides|tutorial|install)")
        self.assertGreaterEqual(len(QUESTIONS), 25)

    def test_a_function_is_found_by_its_name(self):
        if not NODE:
            self.skipTest("there is no node, which runs the site's search")
        said = subprocess.run([NODE, SOURCE / "tests/docs/search_in_node.js", self.folder / "html", "gantry_task_start_after"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(json.loads(said)["gantry_task_start_after"][0], "docs/reference/task.h")

    def test_code_of_examples_is_beside_their_pictures(self):
        programs = {*SOURCE.glob("examples/*/*.c*"), *SOURCE.glob("samples/hello_graph/hello*.c*")}
        gallery = self.page("examples/README.html")
        self.assertEqual(sorted(re.findall(r'<details class="code"><summary>(.*?)</summary>', gallery)), sorted(path.name for path in programs))
        self.assertGreaterEqual(self.page("docs/guides/porting-from-cuda.html").count('<details class="code">'), 6)

    def test_each_page_has_the_version_and_a_button_that_copies_code(self):
        version = re.search(r"project\(gantry VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        for path in (self.folder / "html/docs").glob("**/*.html"):
            page = path.read_text()
            if 'http-equiv="refresh"' not in page:
                self.assertIn(f"Gantry {version}", page, path)
                self.assertIn("_static/copy.js", page, path)

    def test_it_is_for_dark_rooms_and_for_phones_and_has_a_search(self):
        index = self.page("index.html")
        self.assertTrue('name="viewport"' in index)
        styles = index + "".join(path.read_text() for path in (self.folder / "html/_static").glob("**/*.css"))
        self.assertTrue("prefers-color-scheme: dark" in styles or "prefers-color-scheme:dark" in styles)
        self.assertTrue("gantry_task_start_after" in self.page("searchindex.js"))

    @unittest.skipIf(browser.find() is None, "there is no chromium")
    def test_pages_fit_and_can_be_read_on_a_desk_and_on_a_phone(self):
        """One of each kind: with code, tables, pictures, functions.  8 s."""
        with browser.Browser() as web:
            for page in ("index", "docs/guides/profiling", "docs/tutorial/measure", "docs/reference/task.h", "examples/README"):
                self.assertEqual(looks.problems(web, str(self.folder / "html" / (page + ".html"))), [])

    @unittest.skipIf(firefox.find() is None, "there is no Firefox")
    def test_pages_fit_and_can_be_read_in_firefox(self):
        self.assertEqual(firefox.problems(self.folder / "html", "index.html", "docs/guides/profiling.html"), [])

    def test_a_link_that_leads_nowhere_is_named(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "a.html").write_text('<a href="b.html">b</a> <a href="#here">x</a> <p id="there"></p> <a href="a.html#there">y</a>'
                                      '<script src="https://example.org/a.js"></script> <a href="https://example.org/">z</a>')
        count, wrong = site_pages.check_links(other.resolve())
        self.assertEqual((count, wrong), (5, ["a.html: b.html leads nowhere", "a.html: #here leads nowhere", "a.html: it needs https://example.org/a.js"]))


if __name__ == "__main__":
    lacking = site_pages.missing()
    if lacking:
        print(f"skipped: missing are {', '.join(lacking)} (tools/site/site_pages.py says how to install them)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
