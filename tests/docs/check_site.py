#!/usr/bin/env python3
"""The documents become a site: every link leads somewhere, pages need no server, and what is wrong is named.

Usage: check_site.py SOURCE_DIR

Exits with 77 where Doxygen or the Python packages of the site are not installed.
"""
import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(SOURCE / "tools/site"))
import site_pages  # noqa: E402


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

    def test_old_addresses_lead_to_where_the_text_is(self):
        for old, new in (("docs/guides/common-mistakes", "checking.html"), ("docs/lab/performance", "../results/README.html"),
                         ("docs/decisions/0001-option-structs-carry-their-size", "../design/architecture.html")):
            self.assertTrue(f'content="0; url={new}"' in self.page(f"{old}.html"), old)
            self.assertTrue((self.folder / "html" / old).parent.joinpath(new).exists(), new)

    def test_it_is_for_dark_rooms_and_for_phones_and_has_a_search(self):
        index = self.page("index.html")
        self.assertTrue('name="viewport"' in index)
        styles = index + "".join(path.read_text() for path in (self.folder / "html/_static").glob("**/*.css"))
        self.assertTrue("prefers-color-scheme: dark" in styles or "prefers-color-scheme:dark" in styles)
        self.assertTrue("gantry_task_start_after" in self.page("searchindex.js"))

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
