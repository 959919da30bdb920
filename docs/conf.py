"""How Sphinx makes a site of this folder (``make docs``): which extensions, which look.

All of it is made from files that are here; nothing is fetched, neither when the site is built nor when it is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sgframe

sys.path.append(str(Path(__file__).parent / "extensions"))

project = "sgframe"
copyright = "the authors of sgframe"
version = release = sgframe.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "docstrings",
    "exports",
    "outside_links",
    "settings_reference",
    "short_commands",
]
exclude_patterns = ["extensions"]
highlight_language = "none"  # a fence without a word shows output
language = "en"

myst_heading_anchors = 4

autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_preserve_defaults = True
autodoc_type_aliases = {"Ints": "Ints", "Namespace": "Namespace"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"sgframe {version}"
html_static_path = ["extensions/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "tango"
pygments_dark_style = "native"
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
