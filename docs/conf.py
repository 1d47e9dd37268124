# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes

import brainevent
import brainevent.typing

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs import gallery, inventories, names, operator_pages

project = "brainevent"
author = "The brainevent authors"
project_copyright = "the brainevent authors. Licence: Apache-2.0"
version = release = brainevent.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
default_role = "code"  # `name` in a docstring means what it means in Markdown
smartquotes_action = "D"  # dashes only: a name quoted in prose is to be pasted into code
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: f"brainevent.typing.{name}" for name in brainevent.typing.__all__}
autodoc_type_aliases["DTypeLike"] = "jax.typing.DTypeLike"  # which is that of JAX
autosummary_generate = False
intersphinx_mapping = {name: (site, f"_inventories/{name}.inv") for name, site in inventories.SITES.items()}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # members of dataclasses have entries of their own

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"brainevent {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

_LINKED = inventories.linked() - {"True", "False", "None"}
_OURS = {name for name in brainevent.__all__ if not name.endswith("_p")}
_UNITS = "%|[num\N{MICRO SIGN}]?s|[mkMG]?Hz|mV|pA|pF|nS|[kMGT]i?B|[GT]B/s|nJ|W|million"
_NUMBER = re.compile(rf"(?<=\d) (?=(?:\d{{3}}|{_UNITS})(?!\w))")
_ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")
_CLASS = re.compile(r"<class '([\w.]+)'>")
_FUNCTION = re.compile(r"<function [^<>]*(?:<lambda>)?>")
_LONG = 40  # letters
_NAME = re.compile(r"(?<![`:\w])`([\w.]+)`(?![`_])")


def _link(match: re.Match[str]) -> str:
    """Return a name in quotes as a link, if it is one that JAX, NumPy, Python or this package documents."""
    name = match[1]
    if name in _LINKED and "." in name:
        return f":py:obj:`{name}`"
    first, *_ = name.split(".")
    return f":py:obj:`~brainevent.{name}`" if first in _OURS and "." not in name else match[0]


def link_names(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make links of the names in the prose of a docstring, and leave examples alone."""
    lines[:] = [line if line.lstrip().startswith((">>>", "...")) else _NAME.sub(_link, line) for line in lines]


def keep_colons(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Begin with an empty comment, or Napoleon takes the words before the first colon for a type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def name_aliases(app: Any, what: str, name: str, obj: Any, options: Any, signature: Any, returned: Any) -> Any:
    """Return a signature in which each alias of a type has its name, also within a union, and defaults are Python.

    Sphinx parses a signature, and shortens its names, only if it is valid Python.
    """
    made = iter(_made_defaults(obj))
    named = [text and _ALIAS.sub(r"~\1", text) for text in (signature, returned)]
    if named[0]:
        named[0] = _FUNCTION.sub("...", _CLASS.sub(r"\1", re.sub("<factory>", lambda _: next(made), named[0])))
    return tuple(named)


def _made_defaults(obj: Any) -> list[str]:
    """Return the defaults that a dataclass makes anew for each instance, such as {}, in the order of its signature."""
    fields = dataclasses.fields(obj) if dataclasses.is_dataclass(obj) else ()
    made = [field for field in fields if field.init and field.default_factory is not dataclasses.MISSING]
    return [repr(field.default_factory()) for field in sorted(made, key=lambda field: bool(field.kw_only))]


def keep_numbers(app: Any, doctree: nodes.document) -> None:
    """Break no line within a number, or before its unit; mark names that may be wider than a phone."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.FixedTextElement)) and _NUMBER.search(text):
            text.parent.replace(text, nodes.Text(_NUMBER.sub("\N{NO-BREAK SPACE}", text)))
    for literal in doctree.findall(nodes.literal):
        if max(map(len, literal.astext().split()), default=0) > _LONG:
            literal["classes"].append("long")


def setup(app: Any) -> None:
    """Write the gallery, and the pages of operators and of names, before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: gallery.write(Path(app.srcdir)))
    app.connect("builder-inited", lambda app: names.write(Path(app.srcdir) / "names.md"))
    app.connect("builder-inited", lambda app: operator_pages.write(Path(app.srcdir) / "operators"))
    app.connect("autodoc-process-docstring", link_names)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-signature", name_aliases)
    app.connect("doctree-read", keep_numbers)
