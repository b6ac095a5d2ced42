"""How Sphinx makes the site.  tools/site/site_pages.py copies this file beside the pages that it has gathered."""
project = "Gantry"
copyright = "the Gantry authors"  # noqa: A001, Sphinx's name
extensions = ["myst_parser"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = []
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
primary_domain = "c"
html_theme = "furo"  # light and dark by what the reader's system says, a page of its own for phones
html_title = "Gantry"
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
pygments_style = "friendly"
pygments_dark_style = "native"
