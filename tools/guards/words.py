# SPDX-License-Identifier: MIT
"""Words of the documents by folder, without the tables that tools make of the sources; sentences and lines that are too long.

`read_by_users` is the sum of what somebody who writes programs reads: README.md, the pages in docs/ itself, the tutorials,
the guides and the reference.  Code counts, and so do tables that people wrote.  `long_sentences` have more than 30 words
outside code and tables, a piece of code in a sentence being one word; `wide_lines` have more than 120 columns outside
tables, also in the decisions and in the emulator's page, whose sentences are not looked at.
"""
import re

from guards.figures import Figures

MADE = re.compile(r"(?ms)^<!-- (?:The tables below are made by|wrong arguments:).*?^<!-- (?:The tables|end of)[^\n]*-->$")
MADE_PAGES = ("docs/reference/functions.md",)
FOLDERS = {"docs": "front", "docs/tutorial": "tutorials", "docs/guides": "guides", "docs/reference": "reference", "docs/design": "design",
           "docs/results": None, "examples": None, "samples": None}
ALONE = {"README.md": "front", "CONTRIBUTING.md": None, "SECURITY.md": None}
LINES_ALONE = ("docs/decisions", "emulator")  # folders
OF_USERS = ("front", "tutorials", "guides", "reference")
MOST_WORDS, MOST_COLUMNS = 30, 120

NO_PROSE = re.compile(r"(?ms)^ *```.*?^ *```$|<!--.*?-->|^ *\|[^\n]*$|^#[^\n]*$")
ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
END = re.compile(r"(?<=[.?!])[)\"*_]*\s+(?=[\"(*_\[`]*[A-Z0-9`\[])")


def is_wanted(path):
    return path.endswith(".md") and path not in MADE_PAGES and (path in ALONE or path.rpartition("/")[0] in FOLDERS)


def blanked(pattern, text, by=""):
    """The text with what fits replaced, line for line."""
    return pattern.sub(lambda match: by + "\n" * match.group().count("\n"), text)


def paragraphs(text):
    """(line, text) of each paragraph and of each item of a list."""
    found, begins = [], True
    for number, line in enumerate(blanked(NO_PROSE, text).split("\n"), 1):
        if line.strip():
            if begins or ITEM.match(line):
                found.append((number, []))
            found[-1][1].append(line)
        begins = not line.strip()
    return [(number, ITEM.sub("", "\n".join(lines), count=1)) for number, lines in found]


def sentences(text):
    """(line, number of words) of each sentence."""
    for line, paragraph in paragraphs(text):
        plain = blanked(re.compile("`[^`]*`"), LINK.sub(r"\1", paragraph), "Code")
        start = 0
        for end in [match.end() for match in END.finditer(plain)] + [len(plain)]:
            yield line + plain.count("\n", 0, start), sum(1 for word in plain[start:end].split() if re.search(r"\w", word))
            start = end


def too_long(text):
    """(line, what is wrong) of sentences and lines of a document."""
    text = blanked(MADE, text)
    found = [(line, f"a sentence of {words} words, at most {MOST_WORDS}") for line, words in sentences(text) if words > MOST_WORDS]
    found += [(number, f"{len(line)} columns, at most {MOST_COLUMNS}") for number, line in enumerate(text.split("\n"), 1)
              if len(line) > MOST_COLUMNS and not line.lstrip().startswith("|")]
    return sorted(found)


def count(files):
    figures = Figures()
    for name in ("long_sentences", "wide_lines"):
        figures.add(name, None, 0)
    for path, text in files.items():
        if path.endswith(".md") and path.rpartition("/")[0] in LINES_ALONE:
            figures.add("wide_lines", path, sum(1 for _, what in too_long(text) if "columns" in what))
        if not is_wanted(path):
            continue
        complaints = too_long(text)
        figures.add("long_sentences", path, sum(1 for _, what in complaints if "sentence" in what))
        figures.add("wide_lines", path, sum(1 for _, what in complaints if "columns" in what))
        folder = ALONE.get(path) or FOLDERS.get(path.rpartition("/")[0])
        for name in [folder, "read_by_users"] if folder in OF_USERS else [folder] if folder else []:
            figures.add(name, path, len(MADE.sub("", text).split()))
    return figures
