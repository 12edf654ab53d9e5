"""How Sphinx builds the site: `nox -s docs`. The root of the repository is the source, so links are as on GitHub."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
import operator_pages

project = "Penstock"
author = "Penstock contributors"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["docs/**", "tutorials/*.ipynb", "*.md"]
exclude_patterns = [".*", "build", "dist", "**/.ipynb_checkpoints"]

nb_execution_mode = "off"  # `nox -s tutorials` runs the notebooks; the pages show what is stored in them
myst_heading_anchors = 4
smartquotes = False  # quotes are code here
default_role = "code"  # docstrings write `name` for code
nitpicky = True
autodoc_typehints = "none"  # the signature is short without them, and the text says what is taken
autodoc_member_order = "bysource"

html_theme = "pydata_sphinx_theme"
html_title = "Penstock"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"docs/start": [], "docs/api": []}  # they have no pages below them
html_theme_options = {
    "header_links_before_dropdown": 5,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}


def setup(app: Sphinx) -> None:
    """Write a page for each operator before Sphinx looks for pages, and a start page at the root of the site."""
    app.connect("builder-inited", lambda app: operator_pages.write())
    app.connect("source-read", operator_pages.link)
    app.connect("build-finished", lead_to_start)


def lead_to_start(app: Sphinx, error: Exception | None) -> None:
    """Lead from the root of the site to its start page, which lies in docs."""
    if error is None:
        page = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>Penstock</title>\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")
