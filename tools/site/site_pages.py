#!/usr/bin/env python3
"""Build the documents as one static site, with the reference and the manual pages, and check its links.

Usage: site_pages.py SOURCE_DIR OUTPUT_DIR
       site_pages.py --missing

OUTPUT_DIR/html is the site, OUTPUT_DIR/man3 the manual pages.  It needs doxygen, and the packages sphinx, myst-parser and furo in some Python: the
one that runs this, that of $VIRTUAL_ENV, the first of the PATH or the system's.  Without them it says how to install them and fails.  The pages
need no server: they work from file://.  --missing prints the Debian packages that are missing, one a line.
"""
import html.parser
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import reference  # noqa: E402

# The sidebar: four groups, of pages in the order named here; a page in a pair is folded below the one before.  Pages that
# are not named come last in the group of their folder.
GROUPS = {
    "Learn": ["docs/install.md", "docs/tutorial/first-program.md", "docs/tutorial/gpu-tasks.md", "docs/tutorial/pipeline.md",
              "docs/tutorial/measure.md", "examples/README.md", "samples/README.md", "docs/glossary.md"],
    "Do": [f"docs/guides/{name}.md" for name in ("tasks", "interop", "dispatcher", "frozen-graphs", "launching", "heap", "copies", "partitions",
                                                 "fleet", "waiting", "bandwidth", "profiling", "checking", "cpp")],
    "Look up": ["docs/reference/functions.md", "docs/reference/errors.md", "docs/reference/environment.md", "CHANGELOG.md"],
    "Understand": ["README.md", "docs/design/architecture.md", "docs/design/testing.md", "docs/design/reliability.md", "docs/results/README.md",
                   "CONTRIBUTING.md"],
}
GROUP_OF_FOLDER = {"docs": "Learn", "docs/tutorial": "Learn", "docs/guides": "Do", "docs/reference": "Look up", "docs/results": "Understand"}
FOLDED = {"docs/design": "docs/design/architecture.md", "docs/results": "docs/results/README.md"}  # what else is in a folder, below its page
HEADERS = "docs/reference/functions.md"  # the pages of the headers are folded below it
LEFT_OUT = "docs/decisions/"  # for contributors: the repository has them
ALONE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "samples/README.md", "examples/README.md"]
# Pages that were, and where their text is now.
MOVED = {"docs/guides/common-mistakes": "docs/guides/checking", "docs/lab/performance": "docs/results/README",
         "docs/design/origins": "docs/design/architecture"}

MODULES = {"sphinx": "python3-sphinx", "myst_parser": "python3-myst-parser", "furo": "furo"}  # with the Debian package of each
WHICH_MODULES = f"import importlib.util; print(*[name for name in {list(MODULES)} if importlib.util.find_spec(name) is None])"


def lacking_modules(python):
    """What this Python lacks of MODULES; all of them if it does not start."""
    try:
        done = subprocess.run([python, "-c", WHICH_MODULES], text=True, capture_output=True, check=False)
    except OSError:
        return list(MODULES)
    return done.stdout.split() if done.returncode == 0 else list(MODULES)


def find_python():
    """(the Python that lacks the fewest packages, what it lacks)."""
    active = os.environ.get("VIRTUAL_ENV")
    pythons = [sys.executable, active and posixpath.join(active, "bin/python"), shutil.which("python3"), "/usr/bin/python3"]
    found = [(python, lacking_modules(python)) for python in dict.fromkeys(filter(None, pythons))]
    return min(found, key=lambda pair: len(pair[1]))


def missing():
    """The Debian packages that are missing."""
    return ([] if shutil.which("doxygen") else ["doxygen"]) + [MODULES[name] for name in find_python()[1]]


def how_to_install(packages):
    lines = [f"error: missing are {', '.join(packages)}.  Install them:", f"    sudo apt-get install {' '.join(packages)}"]
    if packages != ["doxygen"]:
        lines.append("or, besides doxygen, in a virtual environment that is active when this runs:\n    python3 -m pip install sphinx myst-parser furo")
    return "\n".join(lines)


def links_rewritten(text, document, pages, source, symbols):
    """Links to what is not in the site become text; names of functions become links to the reference."""
    here = posixpath.dirname(document)

    def link(match):
        target, anchor = match[2], match[3] or ""
        if "://" in target or not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(here, target))
        if path == "docs/README.md" or path == "docs":
            return f"[{match[1]}]({posixpath.relpath('index.md', here or '.')}{anchor})"
        if path in pages or posixpath.splitext(path)[1] in (".png", ".svg") and (source / path).exists():
            return match[0]
        if path + "/README.md" in pages:
            return f"[{match[1]}]({posixpath.relpath(path + '/README.md', here or '.')}{anchor})"
        header = re.fullmatch(r"include/gantry/(\w+\.h)", path)
        if header and f"docs/reference/{header[1]}.rst" in pages:
            return f"[{match[1]}]({posixpath.relpath('docs/reference/' + header[1] + '.rst', here or '.')})"
        return match[1]

    parts = re.split(r"(?ms)(^```.*?^```$)", text)
    for number in range(0, len(parts), 2):
        part = re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)", link, parts[number])
        parts[number] = re.sub(r"(?<![\[`])`(gantry_\w+)(\([^`]*\))`(?!\])",
                               lambda match: f"{{c:func}}`{match[1]}{match[2]} <{match[1]}>`" if match[1] in symbols else match[0], part)
    return "".join(parts)


def table_of_contents(paths, caption=None):
    lines = ["```{toctree}", ":hidden:"] + ([f":caption: {caption}"] if caption else []) + [""]
    return "\n".join(["", *lines, *(f"/{posixpath.splitext(path)[0]}" for path in paths), "```", ""])


def sidebar(known):
    """({group: its pages}, {page: those folded below it}): each page is in one place."""
    groups = {name: [path for path in paths if path in known] for name, paths in GROUPS.items()}
    folded, listed = {}, {path for paths in groups.values() for path in paths}
    for path in sorted(known - listed - {"docs/README.md"}):
        folder = posixpath.dirname(path)
        below = HEADERS if path.endswith(".rst") else FOLDED.get(folder)
        if below in known:
            folded.setdefault(below, []).append(path)
        else:
            groups[GROUP_OF_FOLDER.get(folder, "Understand")].append(path)
    return groups, folded


def redirects(source, site):
    """A page at each old address that leads to the new one."""
    moved = dict(MOVED)
    for path in (source / LEFT_OUT).glob("*.md"):
        moved[LEFT_OUT + path.stem] = "docs/design/architecture"
    for old, new in moved.items():
        page = site / f"{old}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        to = posixpath.relpath(f"{new}.html", posixpath.dirname(old))
        page.write_text(f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Moved</title><meta http-equiv="refresh" content="0; url={to}">'
                        f'</head><body><a href="{to}">This page has moved.</a></body></html>\n')


def gather(source, output):
    """The pages as Sphinx reads them, in OUTPUT_DIR/pages."""
    pages = output / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    documents = [path for path in ALONE if (source / path).exists()]
    documents += sorted(path.relative_to(source).as_posix() for path in (source / "docs").glob("**/*.md"))
    documents = [path for path in documents if not path.startswith(LEFT_OUT)]
    headers = sorted((output / "reference").glob("*.rst"))
    known = set(documents) | {f"docs/reference/{path.name}" for path in headers}
    symbols = {path.stem for path in (output / "man3").glob("*.3")}
    for document in documents:
        target = pages / document
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(links_rewritten((source / document).read_text(), document, known, source, symbols))
    for picture in [*(source / "docs").glob("**/*.png"), *(source / "docs").glob("**/*.svg"), *(source / "examples").glob("**/*.png"), *(source / "examples").glob("**/*.svg")]:
        target = pages / picture.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    for header in headers:
        (pages / "docs/reference").mkdir(parents=True, exist_ok=True)
        shutil.copy(header, pages / "docs/reference" / header.name)
    shutil.copy(pathlib.Path(__file__).with_name("conf.py"), pages / "conf.py")
    index = [(pages / "docs/README.md").read_text().replace("](", "](docs/").replace("](docs/../", "](").replace("](docs/http", "](http").replace("](docs/#", "](#"), ""]
    (pages / "docs/README.md").unlink()
    groups, folded = sidebar(known)
    index += [table_of_contents(paths, name) for name, paths in groups.items() if paths]
    for path, below in folded.items():
        with open(pages / path, "a", encoding="utf-8") as file:
            file.write(table_of_contents(below))
    (pages / "index.md").write_text("\n".join(index))
    return pages


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append((tag, value))
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def check_links(site):
    """(links looked at, what is wrong): every link within the site leads somewhere, and no page needs another server."""
    pages, wrong, count = {}, [], 0
    for path in site.glob("**/*.html"):
        pages[path.resolve()] = page = Page()
        page.feed(path.read_text())
    for path, page in pages.items():
        for tag, link in page.links:
            url = urllib.parse.urlsplit(link)
            count += 1
            if url.scheme in ("http", "https", "") and (url.netloc or link.startswith("/")):
                if tag != "a":
                    wrong.append(f"{path.relative_to(site)}: it needs {link}")
            elif url.scheme == "":
                target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
                anchor = urllib.parse.unquote(url.fragment)
                if not target.exists() or anchor and target in pages and anchor not in pages[target].anchors:
                    wrong.append(f"{path.relative_to(site)}: {link} leads nowhere")
    return count, wrong


def build(source, output):
    problems = reference.write(source, output)
    if problems:
        return problems
    pages = gather(source, output)
    shutil.rmtree(output / "html", ignore_errors=True)
    done = subprocess.run([find_python()[0], "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "2", "-d", output / "doctrees", pages, output / "html"],
                          text=True, capture_output=True, check=False)
    if done.returncode != 0:
        return done.stderr.splitlines() + done.stdout.splitlines()
    redirects(source, output / "html")
    count, problems = check_links((output / "html").resolve())
    if not problems:
        print(f"{output / 'html' / 'index.html'}: {len(list((output / 'html').glob('**/*.html')))} pages, {count} links")
    return problems


def main(arguments):
    lacking = missing()
    if arguments == ["--missing"]:
        print("\n".join(lacking))
        return 0
    if lacking:
        print(how_to_install(lacking), file=sys.stderr)
        return 1
    complaints = build(*(pathlib.Path(argument).resolve() for argument in arguments))
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
