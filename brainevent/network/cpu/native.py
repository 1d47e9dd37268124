# SPDX-License-Identifier: Apache-2.0
"""Find the native functions of a network: loaded if an earlier process compiled them, else compiled and kept."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from ...scalar.numba_text import numba_text
from ..plan.bundles import Bundle
from ..plan.plan import SynapsePlan
from .update_text import Update

__all__ = [
    "bundle_address",
    "bundle_function",
    "delivery_address",
    "drive_alone_function",
    "drive_function",
    "update_address",
]

_HERE = Path(__file__).parent
_SCALAR = Path(__file__).parents[2] / "scalar"


@functools.cache
def _sources() -> str:
    """Return the hash of our own code that decides what native functions do, besides the text of a rule."""
    from ...backends.numba.loops import hash_of

    return hash_of([*sorted(_HERE.glob("on_*.py")), _HERE / "layout.py", *sorted(_SCALAR.glob("on_*.py"))])


def _address(title: str, text: str, words: int, make: Any) -> int:
    from ...backends.numba.loops import native_address

    return native_address(title, _sources() + text, words, make)


def update_address(update: Update) -> int:
    """Return the address of `update(table, step, turn)`: one for all networks in which its text is the same."""

    def make() -> Any:
        from .on_update import compiled_update

        return compiled_update(update.forms, update.text)

    return _address("network_update", numba_text(update.forms) + update.text, 3, make)


def bundle_address(bundle: Bundle) -> int:
    """Return the address of `deliver(table, step, before)` for the dtypes of a bundle."""
    weights = None if bundle.weights.size == 1 else bundle.weights.dtype.type

    def make() -> Any:
        from .on_bundles import bundle_delivery

        return bundle_delivery(bundle.places.dtype.type, weights)

    return _address("network_bundle", f"{bundle.places.dtype} {weights}", 3, make)


def delivery_address(synapses: SynapsePlan) -> int:
    """Return the address of `deliver(table, step, _)` for the dtypes of a projection."""
    weights, delays = (None if a.size == 1 else a.dtype.type for a in (synapses.weights, synapses.delays))

    def make() -> Any:
        from .on_delivery import delivery

        return delivery(synapses.targets.dtype.type, weights, delays)

    return _address("network_delivery", f"{synapses.targets.dtype} {weights} {delays}", 3, make)


@functools.cache
def bundle_function(address: int) -> Any:
    """Return the `deliver(table, step, before)` at an address as a function of `ctypes`."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)


@functools.cache
def drive_function() -> Any:
    """Return `drive(run, part)` as a function of `ctypes`, which runs without Python's lock."""

    def make() -> Any:
        from .on_driver import drive

        return drive

    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_address("network_drive", "", 2, make))


@functools.cache
def drive_alone_function() -> Any:
    """Return `drive_alone(table, turn, end)` as a function of `ctypes`, which runs without Python's lock."""

    def make() -> Any:
        from .on_driver import drive_alone

        return drive_alone

    address = _address("network_drive_alone", "", 3, make)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
