# SPDX-License-Identifier: Apache-2.0
"""What all matrices extend: nothing, until units are loaded, and then what those take for a sparse matrix."""

from __future__ import annotations

from .. import units

__all__ = ["Root", "be_known"]


class Root:
    """What matrices extend until units are loaded; its place can then be taken, which that of `object` cannot."""


_watched: list[type] = []  # classes that are to be known once units are loaded


def be_known(matrices: type) -> None:
    """Let quantities leave `*` and `@` to these matrices, now or as soon as the package of units is imported."""
    package = units.loaded()
    if package is not None:
        found = getattr(getattr(package, "sparse", None), "SparseMatrix", None)
        if type(found) is type and found not in matrices.__bases__:
            matrices.__bases__ = tuple(found if base is Root else base for base in matrices.__bases__)
    elif matrices not in _watched:
        _watched.append(matrices)
        units.when_loaded(lambda: be_known(matrices))
