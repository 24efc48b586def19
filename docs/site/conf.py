"""The documentation site: the pages of this repository as they are, the notebooks, the API.

python -m sphinx -W --keep-going -c docs/site . build/site

The source folder is the repository itself, so a link that works where the code is hosted works in
the site: to a page it leads to the page, to any other file to a copy of the file.
"""

import re
from pathlib import Path
from typing import Any

import capsnet

project, author, version = "capsnet", "the authors of capsnet", capsnet.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "examples/notebooks/*.ipynb",
    "capsnet/ops/*/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [".*", "build", "dist", "node_modules", "runs", "docs/site/root"]

myst_heading_anchors = 3  # links to headings, as hosts of code make them
myst_enable_extensions = ["html_image"]  # <img> with a width
nb_execution_mode = "off"  # what is committed is shown; a test runs it

autodoc_typehints = "none"  # the signature has them
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "py:obj"  # `names` in docstrings are code, and links where there is something
napoleon_custom_sections = ["Returns"]  # text, not a type before a colon
highlight_language = "none"  # what is no Python is shown as it is

html_theme = "furo"
html_title = "capsnet"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_extra_path = ["root"]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "explorer.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}


def plain_text(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Let docstrings be plain text: |v| and * are equations in them, not markup."""
    for n, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[n] = re.sub(r"(?<!\\)[|*]", r"\\\g<0>", line)


def add_explorer(app: Any, error: Exception | None) -> None:
    """Put the explorer, which needs no server, beside the pages."""
    if error is None and app.builder.name == "html":
        from capsnet.web.page import write_page

        write_page(Path(app.outdir) / "explorer")


def setup(app: Any) -> None:
    """Tell Sphinx of both; docstrings come here after napoleon has read their sections."""
    app.connect("autodoc-process-docstring", plain_text, priority=900)
    app.connect("build-finished", add_explorer)
