# SPDX-License-Identifier: MIT
"""How Sphinx makes the site.  tools/site/site_pages.py copies this folder's files beside the pages that it has gathered."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_tools"))
import search  # noqa: E402

project = "Gantry"
release = version = (HERE / "_tools/version").read_text().strip()
copyright = "the Gantry authors"  # noqa: A001, Sphinx's name
extensions = ["myst_parser"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_tools"]
myst_heading_anchors = 4
myst_enable_extensions = []
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
primary_domain = "c"
html_theme = "furo"  # light and dark by what the reader's system says, a page of its own for phones
html_title = f"Gantry {version}"  # on each page
html_static_path = ["_tools/static"]
html_js_files = ["copy.js"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
pygments_style = "xcode"  # its colours have the contrast of WCAG AA
pygments_dark_style = "github-dark"
html_search_scorer = str(HERE / "_tools/scorer.js")
pathlib.Path(html_search_scorer).write_text(search.scorer(HERE, (HERE / "_tools/scorer.in.js").read_text()))
