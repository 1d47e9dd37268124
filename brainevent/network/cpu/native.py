# SPDX-License-Identifier: Apache-2.0
"""Find the native functions of a network: loaded if an earlier process compiled them, else compiled and kept."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

import numpy as np

from ...ffi import frame
from ...scalar.numba_text import numba_text
from ..native import sources
from ..plan.bundles import Bundle
from ..plan.couplings import CouplingPlan
from ..plan.plan import SynapsePlan
from .plastic_text import PlasticText
from .update_text import Update

__all__ = ["bundle_address", "bundle_function", "coupling_address", "delivery_address", "drive_alone_address"]
__all__ += [
    "drive_alone_function",
    "drive_function",
    "exchange_function",
    "handler_address",
    "plastic_address",
    "plastic_function",
]
__all__ += ["update_address", "worker_address"]


def _made(room: str, name: str, *arguments: Any) -> Any:
    """Return what a file of Numba code has under a name, or what that returns for arguments."""
    found = getattr(importlib.import_module(f"{__package__}.{room}"), name)
    return found(*arguments) if arguments else found


def _address(title: str, text: str, words: int, room: str, name: str, *arguments: Any, flushes: bool = False) -> int:
    from ...backends.numba.loops import native_address

    return native_address(title, sources() + text, words, lambda: _made(room, name, *arguments), flushes=flushes)


def _function(address: int, words: int) -> Any:
    """Return native code at an address as a function of words, which runs without Python's lock."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * words)(address)


def update_address(update: Update) -> int:
    """Return the address of `update(table, step, turn)`: one for all networks in which its text is the same."""
    text = numba_text(update.forms) + update.text
    return _address("network_update", text, 3, "on_update", "compiled_update", update.forms, update.text)


def bundle_address(bundle: Bundle, values: str | None = None) -> int:
    """Return the address of `deliver(table, step, before)` for the dtypes of a bundle, and of values of spikes."""
    kinds = bundle.places.dtype.type, None if bundle.weights.size == 1 else bundle.weights.dtype.type
    if values is not None:
        own = (*kinds, np.dtype(values).type)
        return _address("network_graded_bundle", f"{own}", 3, "on_graded", "graded_bundle_delivery", *own)
    return _address("network_bundle", f"{kinds}", 3, "on_delivery", "bundle_delivery", *kinds)


def delivery_address(synapses: SynapsePlan, values: str | None = None) -> int:
    """Return the address of `deliver(table, step, _)` for the dtypes of a projection, and of values of spikes."""
    own = (None if a.size == 1 else a.dtype.type for a in (synapses.weights, synapses.delays))
    kinds = synapses.targets.dtype.type, *own
    if values is not None:
        all_ = (*kinds, np.dtype(values).type)
        return _address("network_graded_delivery", f"{all_}", 3, "on_graded", "graded_delivery", *all_)
    return _address("network_delivery", f"{kinds}", 3, "on_delivery", "delivery", *kinds)


def plastic_address(found: PlasticText) -> int:
    """Return the address of a function of a plastic projection, of a table, a step and a word."""
    text = numba_text(found.forms) + found.text
    arguments = found.name, found.forms, found.text
    return _address(f"network_{found.name}", text, 3, "on_plastic", "compiled_plastic", *arguments, flushes=True)


def coupling_address(coupling: CouplingPlan) -> int:
    """Return the address of `carry(table, step, _)` for the kind of a coupling."""
    kinds = coupling.weights.dtype.type, coupling.difference, coupling.weights.size == 1
    return _address("network_coupling", f"{kinds}", 3, "on_coupling", "coupling", *kinds)


@functools.cache
def bundle_function(address: int) -> Any:
    """Return the `deliver(table, step, before)` at an address."""
    return _function(address, 3)


@functools.cache
def plastic_function(address: int) -> Any:
    """Return the function of a plastic projection at an address."""
    return _function(address, 3)


@functools.cache
def drive_function() -> Any:
    """Return `drive(run, part)`."""
    return _function(_address("network_drive", "", 2, "on_driver", "drive"), 2)


@functools.cache
def drive_alone_function() -> Any:
    """Return `drive_alone(table, turn, end)`."""
    return _function(drive_alone_address(), 3)


@functools.cache
def exchange_function(name: str) -> Any:
    """Return `pack(table)` or `unpack(table)`."""
    return _function(_address(f"network_{name}", "", 1, "on_exchange", name), 1)


@functools.cache
def worker_address() -> int:
    """Return the address of `worker(group)`."""
    return _address("network_worker", _interface(), 1, "on_elements", "worker")


@functools.cache
def handler_address() -> int:
    """Return the address of `handler(frame)`."""
    return _address("network_handler", _interface(), 1, "on_elements", "handler")


def _interface() -> str:
    """Return what code that XLA calls depends on, besides its own files."""
    return f"{frame.api_version()} {frame.OFFSETS} {frame.SIZES}"


@functools.cache
def drive_alone_address() -> int:
    """Return the address of `drive_alone(table, turn, end)`."""
    return _address("network_drive_alone", "", 3, "on_driver", "drive_alone")
