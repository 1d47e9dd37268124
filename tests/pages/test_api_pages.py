# SPDX-License-Identifier: Apache-2.0
"""The reference has every public name, on a page by topic and in the list on its first page."""

import pkgutil
import re

from programs import ROOT

import brainevent
from docs import inventories

API = ROOT / "docs" / "api"
MODULES = ("config", "connect", "half", "models", "plasticity", "surrogate")


def entries():
    """Return the names with an entry on one of the pages."""
    text = "".join(path.read_text() for path in API.glob("*.md"))
    found = re.findall(r"\.\. auto(?:function|class|data):: (?:brainevent\.)?([\w.]+)", text)
    assert len(found) == len(set(found))
    return set(found)


def listed():
    """Return the names on the first page."""
    blocks = re.findall(
        r"\.\. autosummary::\n   :nosignatures:\n\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.S
    )
    return {name for block in blocks for name in block.split()}


def public():
    """Return public names; errors and settings have pages of whole modules, and operators pages of their own."""
    skipped = {*MODULES, "errors", "set_backend", "use_backend", *brainevent.errors.__all__}
    names = {name for name in brainevent.__all__ if not name.endswith("_p")} - skipped
    return names | {f"{room}.{name}" for room in MODULES[1:] for name in dir_of(room)}


def dir_of(room):
    module = getattr(brainevent, room)
    return getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]


def test_every_public_name_has_an_entry():
    assert public() - entries() == set()


def test_the_first_page_lists_every_name():
    wanted = public() | {f"errors.{name}" for name in brainevent.errors.__all__}
    wanted |= {f"config.{name}" for name in brainevent.config.__all__}
    assert wanted - listed() == set()
    page = (ROOT / "docs" / "api.md").read_text()
    assert {name for name in brainevent.__all__ if name.endswith("_p")} == set(re.findall(r"`(\w+_p)`", page))
    assert {f"api/{path.stem}" for path in API.glob("*.md")} == set(re.findall(r"^(api/[\w-]+)$", page, re.M))


def test_inventories_are_those_of_the_list():
    for site in inventories.SITES:
        assert (inventories.FOLDER / f"{site}.inv").read_bytes() == inventories.inventory(site), (
            "python -m docs.inventories"
        )
    assert {"jax.Array", "numpy.ndarray", "TypeError"} <= inventories.linked()


def test_names_of_other_sites_exist():
    for site, rows in inventories.NAMES.items():
        for role, _, names in rows:
            for name in names.split():
                found = pkgutil.resolve_name(name if "." in name else f"builtins:{name}")
                assert isinstance(found, type) or role in ("data", "function"), name
                assert callable(found) or role == "data", name
                assert role != "exception" or issubclass(found, BaseException), name
                assert site == "python" or name.startswith(f"{site}.")
