# SPDX-License-Identifier: MIT
"""What a guard has counted: figures by name, and what each file adds to them."""
import collections

from check_style import code_of


class Files(dict):
    """{path: text}"""

    def code(self, wanted):
        """(path, text without comments and literals) of the C files that are wanted."""
        for path, text in self.items():
            if path.endswith((".c", ".h")) and wanted(path):
                yield path, code_of(text)


class Figures(dict):
    """{name: number}; `parts` has {name: {path: number}}."""

    def __init__(self):
        super().__init__()
        self.parts = collections.defaultdict(collections.Counter)
        self.stale = []  # complaints about the guard itself

    def add(self, name, path, number):
        self[name] = self.get(name, 0) + number
        if path and number:
            self.parts[name][path] += number

    def put_largest(self, name, path, number):
        """The figure is the largest of all files."""
        self[name] = max(self.get(name, 0), number)
        self.parts[name][path] = number
