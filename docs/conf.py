# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation."""

import sys
from pathlib import Path
from typing import Any

import brainevent

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs import gallery, names, operator_pages

project = "brainevent"
author = "The brainevent authors"
version = release = brainevent.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
default_role = "code"  # `name` in a docstring means what it means in Markdown
smartquotes = False  # a name quoted in prose is to be pasted into code
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"brainevent {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: Any) -> None:
    """Write the gallery, and the pages of operators and of names, before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: gallery.write(Path(app.srcdir)))
    app.connect("builder-inited", lambda app: names.write(Path(app.srcdir) / "names.md"))
    app.connect("builder-inited", lambda app: operator_pages.write(Path(app.srcdir) / "operators"))
