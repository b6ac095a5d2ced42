#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_page.py MAKE_TRACE GANTRY: the page of `gantry report` in a browser; it says how fluent a million blocks are.

test_page.py GANTRY --pictures FOLDER A.pftrace B.pftrace writes the pictures of docs/guides/profiling.md instead, and
test_page.py GANTRY --pipeline FOLDER BEFORE.pftrace AFTER.pftrace those of docs/tutorial/measure.md.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import browser
import firefox
import looks


def page_of(path, *recordings):
    subprocess.run([GANTRY, "report", "trace", *recordings, "--format", "html", "-o", path], check=True)


def setUpModule():
    global FOLDER, PAGE, PAIR, MANY, WEB
    FOLDER = tempfile.mkdtemp()
    first, second, many = (os.path.join(FOLDER, name + ".pftrace") for name in ("first", "second", "many"))
    for path, arguments in ((first, []), (second, []), (many, ["1"])):
        subprocess.run([MAKE_TRACE, path, *arguments], check=True, stdout=subprocess.DEVNULL)
    PAGE, PAIR, MANY = (os.path.join(FOLDER, name + ".html") for name in ("page", "pair", "many"))
    page_of(PAGE, first)
    page_of(PAIR, first, second)
    page_of(MANY, many)
    WEB = browser.Browser().__enter__()


def tearDownModule():
    WEB.__exit__()
    shutil.rmtree(FOLDER)


def png_size(path):
    with open(path, "rb") as file:
        head = file.read(24)
    assert head[:8] == b"\x89PNG\r\n\x1a\n", path
    return struct.unpack(">II", head[16:24])


class Page(unittest.TestCase):
    def setUp(self):
        WEB.errors.clear()
        WEB.set_dark(False)

    def tearDown(self):
        self.assertEqual(WEB.errors, [])

    def details(self):
        return WEB.evaluate("document.getElementById('details').textContent")

    def view(self):
        WEB.frame()
        return WEB.evaluate("[thePage.view.from, thePage.view.span]")

    def colours(self):
        """How many different colours there are on the canvas."""
        WEB.frame()
        return WEB.evaluate("""(() => { const c = thePage.panes[0].canvas, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(new Uint32Array(d.buffer)).size; })()""")

    def test_it_draws_and_asks_nobody(self):
        WEB.open(PAGE)
        self.assertRegex(WEB.evaluate("document.title"), r"^Gantry timeline: [1-9]\d* drawn of \d+ slices$")
        self.assertEqual(WEB.evaluate("performance.getEntriesByType('resource').length"), 0)
        self.assertGreater(self.colours(), 20)
        self.assertIn("GPU idle, by cause", self.details())

    def test_keys_zoom_and_move(self):
        WEB.open(PAGE)
        whole = self.view()
        WEB.key("w")
        near = self.view()
        self.assertLess(near[1], whole[1])
        WEB.key("d")
        later = self.view()
        self.assertGreater(later[0], near[0])
        WEB.key("a")
        self.assertLess(self.view()[0], later[0])
        for _ in range(80):
            WEB.key("w")
        self.assertEqual(self.view()[1], 20)
        WEB.key("f")
        self.assertEqual(self.view(), whole)

    def test_the_wheel_keeps_what_is_below_it(self):
        WEB.open(PAGE)
        box = WEB.evaluate("(b => [b.x, b.y])(thePage.panes[0].canvas.getBoundingClientRect())")
        before = WEB.evaluate("thePage.panes[0].timeAt(600)")
        WEB.mouse("mouseWheel", box[0] + 600, box[1] + 200, deltaX=0, deltaY=-100)
        WEB.frame()
        self.assertAlmostEqual(WEB.evaluate("thePage.panes[0].timeAt(600)"), before, delta=1)
        self.assertLess(self.view()[1], WEB.evaluate("thePage.view.end"))

    def touch(self, kind, *points):
        WEB.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)])

    def test_two_fingers_and_buttons_zoom(self):
        WEB.open(PAGE)
        WEB.call("Emulation.setTouchEmulationEnabled", enabled=True)
        try:
            left, top = WEB.evaluate("(b => [b.x, b.y])(thePage.panes[0].canvas.getBoundingClientRect())")
            whole, between = self.view(), WEB.evaluate("thePage.panes[0].timeAt(600)")
            self.touch("touchStart", (left + 550, top + 200), (left + 650, top + 200))
            self.touch("touchMove", (left + 500, top + 200), (left + 700, top + 200))
            near = self.view()
            self.assertAlmostEqual(near[1], whole[1] / 2, delta=whole[1] / 100)
            self.assertAlmostEqual(WEB.evaluate("thePage.panes[0].timeAt(600)"), between, delta=whole[1] / 100)
            WEB.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
            self.assertEqual(self.view(), near)
            self.assertEqual(WEB.evaluate("thePage.panes[0].picked"), -1)
        finally:
            WEB.call("Emulation.setTouchEmulationEnabled", enabled=False)
        WEB.evaluate("document.getElementById('farther').click()")
        self.assertEqual(self.view()[1], whole[1])
        WEB.evaluate("document.getElementById('nearer').click()")
        self.assertEqual(self.view()[1], whole[1] / 2)

    def test_search_goes_from_one_to_the_next(self):
        WEB.open(PAGE)
        WEB.key("/")
        for letter in "slow":
            WEB.key(letter)
        self.assertEqual(WEB.evaluate("document.getElementById('found').textContent"), "1 found")
        WEB.key("Enter")
        WEB.frame()
        self.assertIn("CPU task: slow", self.details())
        WEB.key("Escape")
        WEB.evaluate("thePage.find('late')")
        times = []
        for _ in range(5):
            WEB.evaluate("thePage.findNext(1)")
            times.append(WEB.evaluate("thePage.panes[0].r.begin[thePage.panes[0].picked]"))
        self.assertEqual(times[:4], sorted(times[:4]))
        self.assertEqual(times[4], times[0])

    def test_a_click_shows_what_waited_for_what(self):
        WEB.open(PAGE)
        x, y = WEB.evaluate("""(() => { const p = thePage.panes[0], r = p.r, i = slicesFound(r, 'even').find(i => categoryOf(r, i) === 'kernel');
            thePage.show(r.begin[i] - 10000, 100000); p.reveal(i); p.draw();
            const b = p.canvas.getBoundingClientRect(); return [b.x + p.x((r.begin[i] + r.end[i]) / 2), b.y + p.middleOf(i)]; })()""")
        WEB.click(x, y)
        WEB.frame()
        self.assertIn("kernel: even", self.details())
        self.assertRegex(self.details(), "waited forlaunch call: launch [0-3] ")
        WEB.evaluate("document.querySelector('.go.before').click()")
        self.assertRegex(self.details(), "^launch call: launch [0-3]")
        WEB.key("]")
        self.assertIn("kernel: even", self.details())
        WEB.key("Escape")
        self.assertEqual(WEB.evaluate("thePage.panes[0].picked"), -1)

    def test_arrow_keys_walk(self):
        WEB.open(PAGE)
        seen = set()
        WEB.evaluate("thePage.panes[0].canvas.focus()")
        for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp"):
            WEB.key(key)
            WEB.frame()
            seen.add(WEB.evaluate("thePage.panes[0].picked"))
        self.assertGreaterEqual(len(seen), 4)
        self.assertNotIn(-1, seen)

    def test_dark_and_light(self):
        paper = "[...thePage.panes[0].g.getImageData(thePage.panes[0].width - 2, thePage.panes[0].height - 2, 1, 1).data]"
        for dark in (True, False):
            WEB.set_dark(dark)
            WEB.open(PAGE)
            WEB.evaluate("thePage.toggleGroup('GPU 0: example, SMs')")
            WEB.frame()
            self.assertEqual(WEB.evaluate("document.documentElement.classList.contains('dark')"), dark)
            self.assertEqual(max(WEB.evaluate(paper)[:3]) < 128, dark)
            WEB.key("t")
            WEB.frame()
            self.assertEqual(max(WEB.evaluate(paper)[:3]) < 128, not dark)

    def test_it_fits_and_can_be_read_on_a_desk_and_on_a_phone(self):
        try:
            for page in (PAGE, PAIR):
                self.assertEqual(looks.problems(WEB, page), [])
        finally:
            WEB.resize(1400, 900)

    @unittest.skipIf(firefox.find() is None, "there is no Firefox")
    def test_it_fits_and_can_be_read_in_firefox(self):
        self.assertEqual(firefox.problems(FOLDER, os.path.basename(PAGE)), [])

    @unittest.skipIf(firefox.find() is None, "there is no Firefox")
    def test_firefox_draws_it(self):
        """One picture of a window of 1440, with more than paper and ink on it."""
        picture = os.path.join(FOLDER, "firefox.png")
        subprocess.run([firefox.find(), "--headless", "--profile", tempfile.mkdtemp(dir=FOLDER), "--window-size=1440,900", "--screenshot", picture,
                        "file://" + PAGE], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        self.assertEqual(png_size(picture)[0], 1440)
        self.assertGreater(os.path.getsize(picture), 20000)

    def test_idle_times_say_why(self):
        WEB.open(PAGE)
        WEB.evaluate("thePage.pick(thePage.panes[0], -1, 3)")
        self.assertIn("waiting for a host task: slow", self.details())

    def test_the_key_has_the_causes_that_occur(self):
        WEB.open(PAGE)
        causes = WEB.evaluate("[...document.getElementById('key').children].map(e => e.textContent).filter(text => text.startsWith('idle: '))")
        self.assertEqual(causes, ["idle: waiting for a host task", "idle: waiting for memory", "idle: dispatcher busy", "idle: nothing ready"])

    def test_two_recordings(self):
        WEB.open(PAIR)
        self.assertEqual(WEB.evaluate("thePage.panes.map(p => p.r.file)"), ["first.pftrace", "second.pftrace"])
        boxes = "thePage.panes.map(p => (b => [b.x, b.y])(p.canvas.getBoundingClientRect()))"
        (_, top), (_, other) = WEB.evaluate(boxes)
        self.assertEqual(top, other)
        WEB.key("b")
        (left, _), (other, _) = WEB.evaluate(boxes)
        self.assertEqual(left, other)
        WEB.evaluate("thePage.find('slow'); thePage.findNext(1)")
        self.assertIn("on average", self.details())

    def test_a_second_page_is_chosen(self):
        WEB.open(PAGE)
        other = os.path.join(FOLDER, "other.html")
        shutil.copy(PAIR, other)
        WEB.choose_file("#file", other)
        while WEB.evaluate("thePage.panes.length") == 1:
            time.sleep(0.05)
        self.assertEqual(WEB.evaluate("thePage.panes.map(p => p.r.file)"), ["first.pftrace", "other.html"])
        WEB.evaluate("thePage.addFile(new File(['<p>something else'], 'no.html'))")
        self.assertEqual(WEB.evaluate("document.getElementById('found').textContent"), "no page of gantry report")

    def test_pictures_of_the_documents_are_made(self):
        folder = os.path.join(FOLDER, "pictures")
        os.mkdir(folder)
        pictures(folder, os.path.join(FOLDER, "first.pftrace"), os.path.join(FOLDER, "second.pftrace"), "even")
        guides = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guides")
        for name in ("timeline.png", "timeline-two.png"):
            found, expected = png_size(os.path.join(folder, name)), png_size(os.path.join(guides, name))
            self.assertEqual(found, expected, f"{name} is of another page: make it anew")
            self.assertGreater(os.path.getsize(os.path.join(folder, name)), 20000)  # not an empty page

    def test_a_million_blocks_are_at_most_8_mb(self):
        self.assertLess(os.path.getsize(MANY), 8e6)

    def test_a_million_blocks_are_drawn(self):
        """Says how fluent; measured were 4 ms to draw and 17 ms between frames. A bound would depend on the machine's load."""
        WEB.open(MANY)
        self.assertGreaterEqual(WEB.evaluate("thePage.panes[0].r.count"), 1000000)
        WEB.evaluate("measureFrames(thePage, 10)")
        taken = WEB.evaluate("measureFrames(thePage, 60)")
        draws, frames = sorted(taken["draws"]), sorted(taken["frames"])
        print(f"draw: median {draws[30]:.1f} ms, greatest {draws[-1]:.1f} ms; "
              f"frames: median {frames[30]:.1f} ms, 95 of 100 below {frames[56]:.1f} ms")
        self.assertEqual((len(draws), len(frames)), (61, 60))


def pictures(folder, one, other, label="blur"):
    """The pictures of docs/guides/profiling.md; in the first one the first GPU task of that label is picked."""
    with tempfile.TemporaryDirectory() as pages, browser.Browser(1200, 720) as web:
        page, pair = os.path.join(pages, "one.html"), os.path.join(pages, "pair.html")
        page_of(page, one)
        page_of(pair, one, other)
        web.open(page)
        web.evaluate(f"thePage.find('{label}'); thePage.panes[0].found = thePage.panes[0].found.filter("
                     f"i => kindText(thePage.panes[0].r, i) === 'GPU task' && nameOf(thePage.panes[0].r, i) === '{label}'); thePage.findNext(1); thePage.find(''); thePage.fit()")
        web.screenshot(os.path.join(folder, "timeline.png"))
        web.set_dark(True)
        web.open(pair)
        web.screenshot(os.path.join(folder, "timeline-two.png"))


def pipeline_pictures(folder, before, after):
    """Three inputs of two runs of the tutorial's pipeline, from the fifth last download to the second last."""
    with tempfile.TemporaryDirectory() as pages, browser.Browser(1200, 680) as web:
        for name, recording in (("pipeline-before", before), ("pipeline-after", after)):
            page = os.path.join(pages, name + ".html")
            page_of(page, recording)
            web.open(page)
            web.evaluate("{const r = thePage.panes[0].r, ends = []; for (let i = 0; i < r.count; i++) "
                         "if (kindText(r, i) === 'GPU task' && nameOf(r, i) === 'download') ends.push(r.end[i]); ends.sort((a, b) => a - b);"
                         "const span = ends.at(-2) - ends.at(-5); thePage.show(ends.at(-5) - span * 0.1, span * 1.2)}")
            web.screenshot(os.path.join(folder, name + ".png"))


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: there is no chromium")
        sys.exit(77)
    if "--pictures" in sys.argv:
        GANTRY = sys.argv[1]
        pictures(*sys.argv[3:6])
    elif "--pipeline" in sys.argv:
        GANTRY = sys.argv[1]
        pipeline_pictures(*sys.argv[3:6])
    else:
        MAKE_TRACE, GANTRY = sys.argv[1:3]
        unittest.main(argv=sys.argv[:1])
