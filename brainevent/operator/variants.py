# SPDX-License-Identifier: Apache-2.0
"""Variants of a kernel: keyword arguments for its generator, of which one set is fastest."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import RegistrationTypeError, RegistrationValueError
from ..languages import Variants as Declared

__all__ = ["Declared", "Variant", "declared", "free_variants", "label"]

Variant = tuple[tuple[str, Any], ...]  # pairs of a keyword and its value

_TAKEN = ("outs", "backend")


def declared(variants: Any, where: str) -> tuple[Variant, ...]:
    """Return each combination of values, or each of a list of dictionaries, or raise if it cannot be a variant."""
    if variants is None:
        return ()
    found: list[Variant]
    if isinstance(variants, Mapping):
        for name, values in variants.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise RegistrationTypeError(f"{where}: variants[{name!r}] is {values!r}; pass a tuple of values")
        columns = [[(name, value) for value in values] for name, values in variants.items()]
        found = list(itertools.product(*columns)) if columns else []
    elif isinstance(variants, Sequence) and all(isinstance(one, Mapping) for one in variants):
        found = [tuple(one.items()) for one in variants]
    else:
        raise RegistrationTypeError(
            f"{where}: variants is {variants!r}; pass a dictionary such as {{'block': (64, 128)}}, or a list of "
            "dictionaries"
        )
    _check(found, where)
    return tuple(found)


def _check(variants: Sequence[tuple[tuple[Any, Any], ...]], where: str) -> None:
    if not variants:
        raise RegistrationValueError(f"{where}: variants names no variant; leave it out, or give each keyword a value")
    for name, value in itertools.chain(*variants):
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise RegistrationTypeError(
                f"{where}: {name!r} in variants is not a valid name of a keyword argument; choose another"
            )
        if name in _TAKEN or name.startswith("_"):
            raise RegistrationValueError(f"{where}: the keyword {name!r} in variants is reserved; choose another")
        if not isinstance(value, Hashable):
            raise RegistrationTypeError(
                f"{where}: {name}={value!r} in variants must be hashable; pass a tuple instead of a list"
            )
    labels = [label(variant) for variant in variants]
    for text in labels:
        if labels.count(text) > 1:
            raise RegistrationValueError(f"{where}: the variant {text!r} is declared twice; declare it once")


def label(variant: Variant) -> str:
    """Return "block=128, stages=2"; an empty string if there is only one variant."""
    return ", ".join(f"{name}={getattr(value, '__name__', None) or repr(value)}" for name, value in variant)


def free_variants(variants: Sequence[Variant], given: Collection[str]) -> tuple[Variant, ...]:
    """Return the variants that remain if a call gives some of the keywords; the default is the first."""
    free = (tuple((name, value) for name, value in variant if name not in given) for variant in variants)
    return tuple({label(variant): variant for variant in free}.values()) or ((),)
