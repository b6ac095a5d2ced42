#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
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
    "Do": [f"docs/guides/{name}.md" for name in ("porting-from-cuda", "interop", "tasks", "dispatcher", "frozen-graphs", "launching", "heap", "copies",
                                                 "partitions", "limits", "fleet", "frames", "waiting", "bandwidth", "profiling", "nvtx", "checking", "edges",
                                                 "emulator", "python", "cpp", "porting-from-pxtask")],
    "Look up": ["docs/reference/functions.md", "docs/reference/errors.md", "docs/reference/environment.md", "CHANGELOG.md"],
    "Understand": ["README.md", "docs/design/architecture.md", "docs/results/README.md", "CONTRIBUTING.md", "SECURITY.md"],
}
GROUP_OF_FOLDER = {"docs": "Learn", "docs/tutorial": "Learn", "docs/guides": "Do", "docs/reference": "Look up", "docs/results": "Understand"}
FOLDED = {"docs/design": "docs/design/architecture.md", "docs/results": "docs/results/README.md"}  # what else is in a folder, below its page
HEADERS = "docs/reference/functions.md"  # the pages of the headers are folded below it
SHORT_NAMES = {"README.md": "Why, and compared with what"}
LEFT_OUT = "docs/decisions/"  # for contributors: the repository has them
ALONE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "samples/README.md", "examples/README.md"]
# Pages that were, and where their text is now.
MOVED = {"docs/guides/common-mistakes": "docs/guides/checking", "docs/lab/performance": "docs/results/README",
         "docs/design/origins": "docs/design/architecture", "docs/design/waiting": "docs/design/threading",
         "docs/design/heap": "docs/design/memory", "docs/design/copies": "docs/design/memory"}
WITH_CODE = ["examples/README.md", "docs/guides/porting-from-cuda.md"]  # pages that show the programs that they link to
LANGUAGES = {".c": "c", ".cpp": "cpp", ".cu": "cuda"}

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
        if example := re.fullmatch(r"(?:examples|samples)/(\w+)(?:/\w+\.(?:c|cpp|cu))?", path):
            gallery = "examples/README.md" if (source / "examples/images" / f"{example[1]}.svg").exists() else "samples/README.md"
            anchor = f"#{example[1]}" if gallery.startswith("examples") else ""
            return match[1] if gallery == document else f"[{match[1]}]({posixpath.relpath(gallery, here or '.')}{anchor})"
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


def with_code(text, document, source):
    """Each section with the programs that it links to, folded, at its end; of an example all files of its folder."""
    sections = re.split(r"(?m)^(?=## )", text)
    for number, section in enumerate(sections[1:], 1):
        links = re.findall(r"\]\(([\w./-]+\.(?:c|cpp|cu))\)", section)
        programs = [source / posixpath.normpath(posixpath.join(posixpath.dirname(document), link)) for link in links]
        programs += [path for program in programs if section.startswith(f"## {program.parent.name}\n") for path in sorted(program.parent.glob("*.c*")) if path.stem != "in_command"]
        for program in dict.fromkeys(programs):
            code = program.read_text().partition("SPDX-License-Identifier: MIT")[2].partition("\n")[2]
            sections[number] = (f'{sections[number].rstrip()}\n\n<details class="code"><summary>{program.name}</summary>\n\n'
                                f"```{LANGUAGES[program.suffix]}\n{code}```\n\n</details>\n\n")
    return "".join(sections)


def entry(path, pages):
    """A line of the sidebar: what a page's title has before a colon is its short name."""
    name, found = posixpath.splitext(path)[0], pages / path
    title = found.read_text().partition("\n")[0] if path.endswith(".md") else ""
    short = SHORT_NAMES.get(path) or (title[2:].partition(": ")[0] if title.startswith("# ") and ": " in title else None)
    return f"{short} </{name}>" if short else f"/{name}"


def table_of_contents(paths, pages, caption=None):
    lines = ["```{toctree}", ":hidden:"] + ([f":caption: {caption}"] if caption else []) + [""]
    return "\n".join(["", *lines, *(entry(path, pages) for path in paths), "```", ""])


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
        text = (source / document).read_text()
        target.write_text(links_rewritten(with_code(text, document, source) if document in WITH_CODE else text, document, known, source, symbols))
    for picture in [*(source / "docs").glob("**/*.png"), *(source / "docs").glob("**/*.svg"), *(source / "examples").glob("**/*.png"), *(source / "examples").glob("**/*.svg")]:
        target = pages / picture.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    for header in headers:
        (pages / "docs/reference").mkdir(parents=True, exist_ok=True)
        shutil.copy(header, pages / "docs/reference" / header.name)
    tools = pathlib.Path(__file__).parent
    shutil.copy(tools / "conf.py", pages / "conf.py")
    shutil.copytree(tools / "static", pages / "_tools/static")
    shutil.copy(tools / "search.py", pages / "_tools/search.py")
    shutil.copy(tools / "scorer.js", pages / "_tools/scorer.in.js")
    (pages / "_tools/version").write_text(re.search(r"project\(gantry VERSION ([\d.]+)", (source / "CMakeLists.txt").read_text())[1])
    index = [(pages / "docs/README.md").read_text().replace("](", "](docs/").replace("](docs/../", "](").replace("](docs/http", "](http").replace("](docs/#", "](#"), ""]
    (pages / "docs/README.md").unlink()
    groups, folded = sidebar(known)
    index += [table_of_contents(paths, pages, name) for name, paths in groups.items() if paths]
    for path, below in folded.items():
        with open(pages / path, "a", encoding="utf-8") as file:
            file.write(table_of_contents(below, pages))
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


def join_scripts(folder):
    """Some packages of the theme have its script as a module that imports another one, which no browser loads from a file."""
    script = folder / "furo.js"
    first, _, rest = script.read_text().partition("\n") if script.exists() else ("", "", "")
    if first.startswith('import Gumshoe from "./gumshoe-patched.js"'):
        script.write_text((folder / "gumshoe-patched.js").read_text() + rest)


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
    join_scripts(output / "html/_static/scripts")
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
