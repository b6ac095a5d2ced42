#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/plot_results.py draws what the lines say, no more, and refuses lines that are none of a bench.

Usage: test_plot_results.py GANTRY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/plot_results.py"
GANTRY = sys.argv[1]
SVG = "{http://www.w3.org/2000/svg}"


def line(name="heap/device-4k", value=40.0, **more):
    return json.dumps({"name": name, "value": value, "unit": "ns/pair", "yardstick": None, "yardstick_value": None, "ratio": None,
                       "verified": True, "emulated": False, **more})


def plot(*lines, options=()):
    """Exit status, what was said as an error, and {name of the file: its root}."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        run = subprocess.run([sys.executable, TOOL, *options, out, "-"], input="\n".join(lines), capture_output=True, text=True)
        return run.returncode, run.stderr, {path.name: xml.parse(path).getroot() for path in out.glob("*")}


def texts(root):
    return [text.text for text in root.iter(SVG + "text")]


def widths(root):
    return [float(bar.get("width")) for bar in root.iter(SVG + "rect")]


class Plots(unittest.TestCase):
    def test_a_bar_is_as_long_as_its_value(self):
        status, _, files = plot(line(value=40, yardstick="cuMemAllocAsync", yardstick_value=80, ratio=0.5), line(name="heap/b<c>", value=20))
        self.assertEqual(status, 0)
        self.assertEqual(list(files), ["heap.svg"])
        first, other, second = widths(files["heap.svg"])
        self.assertAlmostEqual(other, 2 * first, delta=0.2)
        self.assertAlmostEqual(first, 2 * second, delta=0.2)
        for text in ("gantry bench heap", "ns/pair", "device-4k", "40", "beside cuMemAllocAsync", "80, ratio 0.5", "b<c>", "20", "0"):
            self.assertIn(text, texts(files["heap.svg"]))

    def test_what_lies_far_apart_has_a_logarithmic_scale(self):
        _, _, files = plot(line(value=10), line(name="heap/b", value=1000), line(name="heap/c", value=100000))
        self.assertIn("ns/pair, logarithmic scale", texts(files["heap.svg"]))
        first, second, third = widths(files["heap.svg"])
        self.assertAlmostEqual(second - first, third - second, delta=0.2)
        self.assertGreater(first, 10)
        self.assertIn("100000", texts(files["heap.svg"]))

    def test_units_have_scales_of_their_own_and_benches_files(self):
        _, _, files = plot(line(value=1e6), line(name="heap/part", value=2, unit="bytes/byte"), line(name="copy/a"))
        self.assertEqual(sorted(files), ["copy.svg", "heap.svg"])
        self.assertGreater(min(widths(files["heap.svg"])), 100)
        self.assertNotIn("logarithmic", "".join(texts(files["heap.svg"])))

    def test_one_value_beside_several_yardsticks_is_drawn_once(self):
        _, _, files = plot(*(line(name="copy/a", value=5, yardstick=other, yardstick_value=9, ratio=0.5) for other in ("CUB", "one copy")))
        self.assertEqual(len(widths(files["copy.svg"])), 3)

    def test_what_is_not_a_time_of_a_gpu_says_so(self):
        warning = "The device was emulated: these times say nothing about a GPU."
        self.assertIn(warning, texts(plot(line(), line(name="heap/b", emulated=True))[2]["heap.svg"]))
        self.assertNotIn(warning, texts(plot(line())[2]["heap.svg"]))

    def test_what_was_not_verified_has_no_bar(self):
        _, _, files = plot(line(verified=False, yardstick="malloc", yardstick_value=3))
        self.assertEqual(widths(files["heap.svg"]), [])
        self.assertIn("not verified", texts(files["heap.svg"]))

    def test_zero_has_no_length(self):
        self.assertEqual(widths(plot(line(value=0))[2]["heap.svg"]), [0])
        self.assertEqual(widths(plot(line(value=0), line(value=1), line(value=1000))[2]["heap.svg"])[0], 0)

    def test_a_title_stands_in_the_head(self):
        self.assertIn("gantry bench heap, H200 & 2026", texts(plot(line(), options=["--title", "H200 & 2026"])[2]["heap.svg"]))

    def test_bad_lines_are_named_and_nothing_is_written(self):
        for bad, said in (("no json", "-:2: not a line of JSON"), ("[1]", "-:2: not an object"), ('{"name":"heap/a"}', 'has no "value"'),
                          (line(value="40"), '-:2: "value" is "40", not a number'), (line(value=float("nan")), '"value" is NaN'),
                          (line(name="heap"), '"name" is "heap", not a bench, / and a name'), (line(name="../a"), '"name" is "../a"'),
                          (line(yardstick_value="x"), '"yardstick_value" is "x"')):
            status, error, files = plot(line(), bad)
            self.assertEqual((status, files), (1, {}), bad)
            self.assertIn(said, error)
        self.assertIn("no results", plot("", "")[1])

    def test_the_lines_of_the_command_are_such_lines(self):
        run = subprocess.run([GANTRY, "bench", "--driver", "emulated", "--json", "--runs", "1", "bandwidth"], check=True, capture_output=True,
                             text=True)
        status, error, files = plot(*run.stdout.splitlines())
        self.assertEqual((status, error), (0, ""))
        self.assertIn("yield-down", texts(files["bandwidth.svg"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
