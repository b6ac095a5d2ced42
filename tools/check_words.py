#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Say how many words the documents have, and where their sentences and lines are too long.

Usage: check_words.py [ROOT [DOCUMENT]...]

The test style.words (tools/check_budgets.py) holds these figures against their budgets in tests/style/budgets.toml; this
shows the places.  tools/guards/words.py says what counts.  The exit status is 1 when a sentence or a line is too long.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from guards import tree, words  # noqa: E402
from guards.figures import Files  # noqa: E402


def main(root=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."), *wanted):
    files = Files({path: text for path, text in tree.read_folder(root).items() if not wanted or path in wanted})
    places = [f"{path}:{line}: {what}" for path, text in files.items() if words.is_wanted(path) for line, what in words.too_long(text)]
    figures = words.count(files)
    for name, parts in figures.parts.items():
        print(f"{name} {figures[name]}: " + ", ".join(f"{path} {number}" for path, number in parts.most_common()))
    print("\n".join(places))
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
