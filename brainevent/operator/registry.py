# SPDX-License-Identifier: Apache-2.0
"""Names and tags of all operators of this process."""

from __future__ import annotations

import importlib

from .custom_kernel import XLACustomKernel, defined

__all__ = ["get_all_primitive_names", "get_primitives_by_tags", "get_registry", "load_when_asked"]

_to_load: list[str] = []  # modules whose operators are registered when they are imported


def load_when_asked(module: str) -> None:
    """Import a module of operators when the registry is first read, not earlier."""
    _to_load.append(module)


def get_registry() -> dict[str, XLACustomKernel]:
    """Return all operators of this process.

    Returns:
        The newest operator of each name, in a new dictionary.

    Examples:
        >>> import brainevent
        >>> brainevent.get_registry()["csrmv"] is brainevent.csrmv_p
        True
    """
    for module in list(_to_load):
        importlib.import_module(module)
        _to_load.remove(module)
    return defined()


def get_all_primitive_names() -> list[str]:
    """Return the names of all operators of this process.

    Returns:
        The names, sorted.

    Examples:
        >>> import brainevent
        >>> "binary_csrmv" in brainevent.get_all_primitive_names()
        True
    """
    return sorted(get_registry())


def get_primitives_by_tags(tags: set[str]) -> dict[str, XLACustomKernel]:
    """Return the operators that have all of these tags.

    Args:
        tags: A set of tags.

    Returns:
        The operators by name.

    Raises:
        TypeError: If `tags` is a string.

    Examples:
        >>> import brainevent
        >>> "binary_csrmv" in brainevent.get_primitives_by_tags({"binary", "csr"})
        True
    """
    if isinstance(tags, str):
        raise TypeError(f"get_primitives_by_tags: tags is the string {tags!r}; pass a set ({{{tags!r}}})")
    wanted = set(tags)
    return {name: operator for name, operator in get_registry().items() if wanted <= operator.definition.tags}
