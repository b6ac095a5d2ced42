#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The gallery's pictures: what is drawn of a recording, and that the pictures there are can be read.

Usage: test_example_pictures.py SOURCE_DIR
"""
import pathlib
import sys
import unittest
import xml.etree.ElementTree as xml

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "tools"))
sys.dont_write_bytecode = True
import example_pictures  # noqa: E402

TRACKS = {1: "GD", 2: "GPU 0: name / stream 3", 3: "thread 77", 4: "gantry worker 0", 5: "Heap", 6: "GPU 1: name / stream 3", 7: "GD 1"}


def recording(*slices):
    names = [{"ph": "M", "name": "thread_name", "tid": tid, "args": {"name": name}} for tid, name in TRACKS.items()]
    return {"traceEvents": names + [{"ph": "X", "tid": tid, "name": name, "ts": begin, "dur": end - begin}
                                    for tid, name, begin, end in slices]}


class Pictures(unittest.TestCase):
    def test_tasks_are_taken_and_nothing_else(self):
        slices = example_pictures.slices_of(recording((4, "look", 30.0, 40.0), (1, "GD batch", 0.0, 50.0), (1, "submit x", 1.0, 2.0),
                                                      (2, "fill", 6.0, 25.0), (3, "fill", 5.0, 7.0), (5, "bytes", 0.0, 1.0)))
        # What a thread does of a task that has work on a stream is its launching.
        self.assertEqual(slices, [("launching", "fill", 5.0, 7.0), ("stream 3", "fill", 6.0, 25.0), ("CPU", "look", 30.0, 40.0)])

    def test_each_of_several_gpus_has_rows_of_its_own(self):
        slices = example_pictures.slices_of(recording((1, "fill", 1.0, 2.0), (7, "gather", 2.0, 3.0), (2, "fill", 3.0, 5.0), (6, "gather", 4.0, 6.0)))
        self.assertEqual([row for row, *_ in slices], ["launching", "launching", "GPU 0 stream 3", "GPU 1 stream 3"])

    def test_what_runs_at_the_same_time_is_not_drawn_over(self):
        lanes = example_pictures.in_lanes([("CPU", "a", 1, 4), ("CPU", "b", 2, 3), ("CPU", "c", 3, 6), ("stream", "d", 3, 5), ("CPU", "e", 4, 5)])
        self.assertEqual([(label, lane) for _, lane, label, _, _ in lanes], [("a", 0), ("b", 1), ("c", 1), ("d", 0), ("e", 0)])

    def test_order_is_drawn_and_times_are_not(self):
        quick = example_pictures.picture([("stream 0", "a<b", 1, 2), ("CPU", "c", 3, 4)])
        self.assertEqual(quick, example_pictures.picture([("stream 0", "a<b", 10, 2000), ("CPU", "c", 2001, 9000)]))
        self.assertNotEqual(quick, example_pictures.picture([("stream 0", "a<b", 1, 3), ("CPU", "c", 2, 4)]))
        texts = [text.text for text in xml.fromstring(quick).iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts, ["stream 0", "CPU", "a<b", "c"])

    def test_the_gallery_shows_every_picture(self):
        gallery = (SOURCE / "examples/README.md").read_text()
        pictures = sorted(path.stem for path in (SOURCE / "examples/images").glob("*.svg"))
        self.assertEqual(pictures, sorted(example_pictures.NAMES))
        for name in pictures:
            self.assertIn(f"](images/{name}.svg)", gallery)
            self.assertGreater(len(list(xml.parse(SOURCE / f"examples/images/{name}.svg").getroot())), 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
