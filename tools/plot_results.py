#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw the JSON lines of `gantry bench --json` as plots, one SVG file for each bench.

Usage: plot_results.py [--title TEXT] OUT FILE...

OUT is a folder, FILE has the lines ("-": standard input).  The bench is what stands before the / in a line's name: copy/... become OUT/copy.svg.  A
plot has a part for each unit, with a scale of its own, which is logarithmic where the values lie far apart; ours is in one colour, what it is
measured beside in the other.  TEXT, such as the host and the date, stands in the head.  What was not verified is named and has no bar, and
what comes from the emulated device says so.  A line that is none of a bench is an error, and then nothing is written.
"""
import argparse
import html
import json
import math
import pathlib
import sys

WIDTH, LEFT, RIGHT, ROW = 900, 300, 200, 20
OURS, THEIRS = "#4e79a7", "#f28e2b"
FAR_APART = 30  # largest by smallest, from which on a scale is logarithmic
STYLE = ("<style>text{fill:#333}line{stroke:#ccc}.faint{fill:#777}@media(prefers-color-scheme:dark){text{fill:#ddd}line{stroke:#555}"
         ".faint{fill:#aaa}}</style>")


class BadInput(Exception):
    """What is wrong, with the place."""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def parse(text, file):
    """The results of a file, one for each line that is not empty."""
    results = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            result = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadInput(f"{file}:{number}: not a line of JSON: {error}") from None
        if not isinstance(result, dict):
            raise BadInput(f"{file}:{number}: not an object")
        for key, is_right, what in (("name", lambda v: isinstance(v, str) and "/" in v and v[0].isalnum(), "a bench, / and a name"),
                                    ("value", is_number, "a number"), ("unit", lambda v: isinstance(v, str), "a text"),
                                    ("verified", lambda v: isinstance(v, bool), "true or false"),
                                    ("emulated", lambda v: isinstance(v, bool), "true or false"),
                                    ("yardstick", lambda v: v is None or isinstance(v, str), "a text or null"),
                                    ("yardstick_value", lambda v: v is None or is_number(v), "a number or null")):
            if key not in result:
                raise BadInput(f"{file}:{number}: has no \"{key}\"")
            if not is_right(result[key]):
                raise BadInput(f"{file}:{number}: \"{key}\" is {json.dumps(result[key])}, not {what}")
        results.append(result)
    return results


def shown(value):
    """Four digits, and no exponent where it can be read without."""
    digits = f"{value:.4g}"
    return f"{float(digits):.0f}" if "e+" in digits and value < 1e7 else digits


def grouped(results):
    """{bench: {unit: [result]}}, each in the order in which it came first."""
    benches = {}
    for result in results:
        benches.setdefault(result["name"].split("/")[0], {}).setdefault(result["unit"], []).append(result)
    return benches


def bars_of(results):
    """[(label, value or None, text behind the bar, is it ours)]; what is measured beside several yardsticks has its own bar once."""
    bars, last = [], None
    for result in results:
        name, value = result["name"].split("/", 1)[1], result["value"]
        if not result["verified"]:
            bars.append((name, None, "not verified", True))
            last = None
            continue
        if last != (name, value):
            bars.append((name, value, shown(value), True))
            last = (name, value)
        if result["yardstick"] is not None and result["yardstick_value"] is not None:
            other = result["yardstick_value"]
            ratio = f", ratio {result['ratio']:.3g}" if is_number(result.get("ratio")) else ""
            bars.append((f"beside {result['yardstick']}", other, shown(other) + ratio, False))
    return bars


def scale_of(values):
    """(is it logarithmic, lower end, upper end, ticks) for some values, of which those above 0 count."""
    above = [value for value in values if value > 0]
    if not above:
        return False, 0, 1, [0, 1]
    if max(above) / min(above) > FAR_APART:
        first, last = math.floor(math.log10(min(above))), math.ceil(math.log10(max(above)))
        first -= first == math.log10(min(above))  # the smallest has a bar, too
        return True, first, last, [10.0 ** power for power in range(first, last + 1)]
    step = 10.0 ** math.floor(math.log10(max(above)))
    step = next(step * part for part in (0.2, 0.5, 1, 2) if max(above) / (step * part) <= 6)
    count = math.ceil(max(above) / step)
    return False, 0, count * step, [step * index for index in range(count + 1)]


def part(unit, results, y):
    """The lines of SVG for all results of one unit, from `y` down, and where they end."""
    bars = bars_of(results)
    is_log, low, high, ticks = scale_of([value for _, value, _, _ in bars if value is not None])

    def x_of(value):
        if is_log:
            value = math.log10(value) if value > 0 else low
        return LEFT + (WIDTH - LEFT - RIGHT) * max(0, value - low) / (high - low)

    bottom = y + 24 + ROW * len(bars)
    lines = [f'<text x="4" y="{y + 14}" font-weight="bold">{html.escape(unit)}{", logarithmic scale" if is_log else ""}</text>']
    for tick in ticks:
        lines.append(f'<line x1="{x_of(tick):.1f}" x2="{x_of(tick):.1f}" y1="{y + 20}" y2="{bottom}"/>'
                     f'<text class="faint" x="{x_of(tick):.1f}" y="{bottom + 13}" text-anchor="middle">{shown(tick)}</text>')
    for index, (label, value, text, is_ours) in enumerate(bars):
        top, end = y + 24 + ROW * index, LEFT if value is None else x_of(value)
        faint = "" if is_ours else ' class="faint"'
        lines.append(f'<text x="{LEFT - 6}" y="{top + 12}" text-anchor="end"{faint}>{html.escape(label)}</text>'
                     f'<text x="{end + 5:.1f}" y="{top + 12}"{faint}>{html.escape(text)}</text>')
        if value is not None:
            lines.append(f'<rect x="{LEFT}" y="{top + 1}" width="{end - LEFT:.1f}" height="{ROW - 6}" fill="{OURS if is_ours else THEIRS}"/>')
    return lines, bottom + 28


def picture(bench, units, title):
    """The text of an SVG file."""
    heading = f"gantry bench {bench}" + (f", {title}" if title else "")
    lines, y = [f'<text x="4" y="20" font-size="15">{html.escape(heading)}</text>'], 34
    if any(result["emulated"] for results in units.values() for result in results):
        lines.append(f'<text x="4" y="{y + 6}" fill="#e15759" style="fill:#e15759">The device was emulated: these times say nothing about a GPU.</text>')
        y += 20
    for unit, results in units.items():
        added, y = part(unit, results, y)
        lines += added
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" font-family="sans-serif" '
            'font-size="12">')
    return "\n".join([head, STYLE, *lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description="Plots of the JSON lines of gantry bench --json.")
    parser.add_argument("--title", default="", help="what stands in the head, such as the host and the date")
    parser.add_argument("out", type=pathlib.Path, help="the folder for BENCH.svg")
    parser.add_argument("files", nargs="+", help='files with JSON lines; "-" is standard input')
    options = parser.parse_args()
    try:
        results = []
        for file in options.files:
            results += parse(sys.stdin.read() if file == "-" else pathlib.Path(file).read_text(encoding="utf-8"), file)
        if not results:
            raise BadInput(f"{', '.join(options.files)}: no results")
        pictures = {bench: picture(bench, units, options.title) for bench, units in grouped(results).items()}
        options.out.mkdir(parents=True, exist_ok=True)
        for bench, text in pictures.items():
            (options.out / f"{bench}.svg").write_text(text, encoding="utf-8")
            print(options.out / f"{bench}.svg")
    except (BadInput, OSError, UnicodeDecodeError) as error:
        print(f"plot_results.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
