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

SECTIONS = [("Tutorial", "docs/tutorial"), ("Guides", "docs/guides"), ("Reference", "docs/reference"), ("Design", "docs/design"),
            ("Results", "docs/results"), ("Lab", "docs/lab")]
FIRST = ["first-program", "gpu-tasks", "pipeline", "measure", "tasks", "memory", "heap", "copies", "partitions", "profiling", "frozen-graphs", "interop", "existing-cuda-code", "errors", "environment",
         "architecture", "path-of-a-task", "threading"]  # what begins a section; all else follows by name
ALONE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "samples/README.md", "examples/README.md"]


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


def table_of_contents(name, paths):
    lines = [f"```{{toctree}}\n:hidden:\n:caption: {name}\n"]
    return "\n".join(lines + [f"/{posixpath.splitext(path)[0]}" for path in paths] + ["```", ""])


def gather(source, output):
    """The pages as Sphinx reads them, in OUTPUT_DIR/pages."""
    pages = output / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    documents = [path for path in ALONE if (source / path).exists()]
    documents += sorted(path.relative_to(source).as_posix() for path in (source / "docs").glob("**/*.md"))
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
    for name, folder in SECTIONS:
        inside = [path for path in known if posixpath.dirname(path) == folder]
        inside.sort(key=lambda path: (path.endswith(".rst"), *(pair for pair in [(FIRST + [posixpath.splitext(posixpath.basename(path))[0]]).index(
            posixpath.splitext(posixpath.basename(path))[0])]), path))
        if inside:
            index.append(table_of_contents(name, inside))
    alone = [path for path in known if posixpath.dirname(path) == "docs" and path != "docs/README.md"]
    index.append(table_of_contents("Decisions", sorted(path for path in known if path.startswith("docs/decisions/"))))
    index.append(table_of_contents("About", sorted(alone) + [path for path in ALONE if path in known]))
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
