# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the state and the parameters of a network in a file, which every engine reads.

A file is an npz archive without pickled objects. `header` is JSON: the format, and what names the network. The other
arrays are `step`, `neurons/POPULATION/STATE`, `arriving/POPULATION/RECEPTOR` and `params/POPULATION/PARAMETER`, in the
layout of `NetworkState` and of the plan, and `weights/PROJECTION` of weights that were replaced, as they were given, by
source, delay and target; those of couplings likewise. Earlier versions wrote integers, in quanta of the build. Networks
with plastic synapses have `synapses/PROJECTION/NAME`, `traces/PROJECTION/NAME` and `past/POPULATION/NAME` as well.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..._version import __version__
from ...bench.whole_files import write_whole
from ...errors import CheckpointError, NetworkError
from ...scalar.numba_text import numba_text
from ...scalar.threefry import SCHEME
from ...scalar.trace import Told, TracedRule
from ..plan.plan import Plan
from ..plan.quantum import SMALLEST
from ..state import GROUPS, NetworkState, like_state
from .checked import checked_state

__all__ = ["FORMAT", "UNREADABLE", "Members", "read_checkpoint", "write_checkpoint"]

FORMAT = 1
Array = Any
Params = Mapping[str, Mapping[str, Array]]
Quanta = tuple[tuple[str, str, float], ...]
_HEADER = {"fingerprint": str, "seed": int, "scheme": int, "rules": dict, "quanta": dict}


def write_checkpoint(
    path: str | os.PathLike[str], plan: Plan, state: NetworkState, params: Params, replaced: Mapping[str, Array]
) -> None:
    """Write a file atomically: a reader finds either the old file or the complete new one.

    `replaced` are weights that are no longer those of the plan, by projection.
    """
    header = _header(plan, plan.quanta if state.quanta is None else state.quanta)
    arrays = {"header": np.array(json.dumps(header)), "step": np.asarray(state.step, np.uint32)}
    trees = (("neurons", state.neurons), ("arriving", state.arriving), ("params", params))
    for group, tree in (*trees, *((group, getattr(state, group)) for group in GROUPS)):
        arrays |= {f"{group}/{name}/{key}": array for name, parts in tree.items() for key, array in parts.items()}
    arrays |= {f"weights/{name}": weights for name, weights in replaced.items()}
    packed = io.BytesIO()
    in_rows = {name: np.asarray(array, order="C") for name, array in arrays.items()}  # the same bytes of every engine
    np.savez_compressed(packed, allow_pickle=False, **in_rows)
    write_whole(Path(path), packed.getvalue())


def read_checkpoint(
    path: str | os.PathLike[str], plan: Plan, *, force: bool = False
) -> tuple[NetworkState, dict[str, dict[str, Array]], dict[str, Array] | None]:
    """Return the state, the parameters and the replaced weights of a file, or raise `CheckpointError`.

    With `force`, a file of another network gives its state, if that has the same layout, no parameters, and None.
    """
    where = _where(path)
    data = io.BytesIO(Path(path).read_bytes())
    with _unreadable(where):
        members = Members(data)
        header = json.loads(str(members.small("header")))
        number = header["format"]
    _check_header(where, number, header)
    different = _checked_difference(where, plan, header, force=force)
    like = like_state(plan)
    with _unreadable(where):
        if "step" not in members.names:
            raise CheckpointError(f"{where}: the array step is missing: the file is damaged; pass another one")
        step = members.small("step")
        neurons, arriving = members.tree("neurons", like.neurons), members.tree("arriving", like.arriving)
        plastic: dict[str, Any] = {group: members.tree(group, getattr(like, group)) for group in GROUPS}
        params = {} if different else members.tree("params", plan.params)
    try:
        state = checked_state(plan, NetworkState(step, neurons, arriving, **plastic), where)
    except NetworkError as error:
        raise CheckpointError(str(error)) from None
    quanta = _checked_quanta(where, plan, header["quanta"])
    state = dataclasses.replace(state, quanta=quanta)
    if different:
        return state, {}, None
    return state, _checked_params(where, plan, params), _replaced(where, plan, members, quanta)


def _checked_difference(where: str, plan: Plan, header: Mapping[str, Any], *, force: bool) -> str:
    """Return how the network of a file differs from this one, in words; raise for its dtype, and unless `force`."""
    if (dtype := header.get("dtype", "float32")) != plan.dtype:
        raise CheckpointError(
            f"{where}: the file is of a network in {dtype}, and this network is in {plan.dtype}; build it with "
            f"dtype={dtype!r}"
        )
    different = _difference(plan, header)
    if different and not force:
        raise CheckpointError(
            f"{where}: {different} (the file was written by brainevent {header.get('brainevent')}); build the network "
            "of the file, or pass force=True to go on from its state with this network and its parameters"
        )
    return different


def _where(path: str | os.PathLike[str]) -> str:
    return f"checkpoint {os.fspath(path)}"


@contextmanager
def _unreadable(where: str) -> Iterator[None]:
    """Raise `CheckpointError` for whatever a file makes its reader raise."""
    try:
        yield
    except CheckpointError:
        raise
    except UNREADABLE as error:
        raise CheckpointError(
            f"{where}: the file is incomplete, damaged, or not a checkpoint of brainevent "
            f"({type(error).__name__}: {error}); pass a file that sim.save(...) wrote"
        ) from None


def _check_header(where: str, number: Any, header: Mapping[str, Any]) -> None:
    if number != FORMAT:
        raise CheckpointError(
            f"{where}: the file has format {number!r}, written by brainevent {header.get('brainevent')}; "
            f"brainevent {__version__} reads format {FORMAT}; load it with the version that wrote it"
        )
    if missing := set(_HEADER) - set(header):
        raise CheckpointError(
            f"{where}: its header lacks {', '.join(sorted(missing))}: the file is damaged; pass another one"
        )
    if wrong := [key for key, kind in _HEADER.items() if not isinstance(header[key], kind)]:
        raise CheckpointError(
            f"{where}: {wrong[0]} in its header is {header[wrong[0]]!r}: the file is damaged; pass another one"
        )


def _header(plan: Plan, quanta: Quanta) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "brainevent": __version__,
        "fingerprint": plan.fingerprint,
        "seed": plan.seed,
        "dtype": plan.dtype,
        "scheme": SCHEME,
        "rules": {population.name: _digest(population.rule) for population in plan.populations},
        "quanta": _by_name(quanta),
    }


def _by_name(quanta: Quanta) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {name: {} for name, _, _ in quanta}
    for name, receptor, quantum in quanta:
        found[name][receptor] = quantum
    return found


def _checked_quanta(where: str, plan: Plan, given: Any) -> Quanta:
    """Return the quanta of a file, if they are numbers of the receptors of a plan."""
    largest, found = float(np.finfo(np.float32).max), []
    for name, receptor in plan.receptors():
        quantum = given[name].get(receptor) if isinstance(given.get(name), dict) else None
        if not isinstance(quantum, float) or not SMALLEST <= quantum <= largest:
            raise CheckpointError(
                f"{where}: the quantum of {name}.{receptor} in its header is {quantum!r}: the file is damaged; pass "
                "another one"
            )
        found.append((name, receptor, quantum))
    return tuple(found)


def _digest(rule: TracedRule) -> str:
    """Return a hash of what a rule computes, wherever it is written."""
    inputs = [(name.text, name.dtype) for name in rule.form.inputs]
    told = "" if rule.told == Told() else f"{rule.told.events} {rule.told.value}\n"
    return hashlib.sha256(f"{told}{inputs}\n{numba_text([rule.form])}".encode()).hexdigest()[:16]


def _difference(plan: Plan, header: Mapping[str, Any]) -> str:
    """Return how the network of a file differs from this one; nothing if it does not."""
    if header["scheme"] != SCHEME:
        return f"its random number scheme is {header['scheme']}, and that of this brainevent is {SCHEME}"
    if header["fingerprint"] == plan.fingerprint:
        return ""
    rules = {population.name: _digest(population.rule) for population in plan.populations}
    if set(header["rules"]) != set(rules):
        return f"it has the populations {', '.join(header['rules'])}, and this network {', '.join(rules)}"
    if header["seed"] != plan.seed:
        return f"it has the seed {header['seed']}, and this network {plan.seed}"
    changed = [name for name in rules if rules[name] != header["rules"][name]]
    if changed:
        return f"the rule of {', '.join(changed)} has changed since"
    return "its sizes, initial states, parameters or synapses are not those of this network"


def _checked_params(where: str, plan: Plan, found: Params) -> dict[str, dict[str, Array]]:
    """Return the parameters of a file, which must be those of the plan."""
    if other := [name for name in found if name not in plan.params]:
        raise CheckpointError(f"{where}: it has parameters of {other[0]!r}; populations: {', '.join(plan.params)}")
    for owner, own in plan.params.items():
        given = {key: (array.dtype, array.shape) for key, array in found.get(owner, {}).items()}
        expected = {key: (array.dtype, np.shape(array)) for key, array in own.items()}
        if given != expected:
            raise CheckpointError(
                f"{where}: parameters of {owner} do not have the shapes of this network: the file is "
                "damaged; pass another one"
            )
        for key, array in found.get(owner, {}).items():
            words = f"{where}: parameter {key} of {owner}"
            if array.dtype.kind == "f" and np.isnan(array).any():
                raise CheckpointError(f"{words} is NaN: the file is damaged; pass another one")
            if key == "dt" and np.any(array != own[key]):
                raise CheckpointError(f"{words} is not the time step of the network: the file is damaged; pass another")
    return {name: dict(values) for name, values in found.items()}


def _replaced(where: str, plan: Plan, members: Members, quanta: Quanta) -> dict[str, Array]:
    """Return the weights of a file, by projection or coupling: float64 () or (entries,)."""
    units = {(name, receptor): quantum for name, receptor, quantum in quanta}
    links, found = {link.name: link for link in plan.links()}, {}
    for path in members.names:
        if not path.startswith("weights/"):
            continue
        name = path.removeprefix("weights/")
        about = links.get(name)
        shapes = () if about is None else ((1,), (about.entries,))
        kinds = [(np.dtype(dtype), shape) for dtype in ("float64", "int16", "int32") for shape in shapes]
        with _unreadable(where):
            weights = members.expected(path, kinds)
        if about is None or (weights.dtype, weights.shape) not in kinds:
            raise CheckpointError(
                f"{where}: {path} does not have the shape of this network: the file is damaged; pass another one"
            )
        if weights.dtype.kind == "i":  # of an earlier version
            weights = weights * units[about.target, about.receptor]
        found[name] = weights.reshape(()) if weights.shape == (1,) else weights
    return found


UNREADABLE = (
    *(ValueError, OSError, EOFError, LookupError, TypeError, AttributeError, MemoryError, RecursionError),
    *(NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error),
)
_SMALL = 2**26  # bytes
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Members:
    """The members of an open npz file, by the names of arrays; reading raises one of `UNREADABLE`."""

    def __init__(self, file: IO[bytes]):
        self._archive = zipfile.ZipFile(file)
        self.names = [name.removesuffix(".npy") for name in self._archive.namelist() if name.endswith(".npy")]

    def small(self, name: str) -> Array:
        """Return an array that is small."""
        size = self._archive.getinfo(f"{name}.npy").file_size
        if size > _SMALL:
            raise ValueError(f"{name} takes {size} bytes")
        return self._read(name)

    def tree(self, group: str, like: Mapping[str, Mapping[str, Array]]) -> dict[str, dict[str, Array]]:
        """Return the arrays `group/NAME/KEY` by name and key.

        Those that do not have the dtype and shape of the same array in `like` are not read: all their elements are 0.
        """
        found: dict[str, dict[str, Array]] = {name: {} for name in like}
        for path in self.names:
            if path.startswith(f"{group}/"):
                name, _, key = path.removeprefix(f"{group}/").rpartition("/")
                known = like.get(name, {}).get(key)
                kinds = [] if known is None else [(known.dtype, np.shape(known))]
                found.setdefault(name, {})[key] = self.expected(path, kinds)
        return found

    def expected(self, path: str, kinds: Sequence[tuple[Any, tuple[int, ...]]]) -> Array:
        """Return an array if it is of one of these dtypes and shapes; else one of its dtype and shape, all 0."""
        with self._archive.open(f"{path}.npy") as file:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
        if (dtype, shape) in kinds:
            return self._read(path)
        return np.broadcast_to(np.zeros((), dtype), shape)

    def _read(self, name: str) -> Array:
        with self._archive.open(f"{name}.npy") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError(f"{name} has more bytes than its array")
        if array.dtype == bool and array.size and array.view(np.uint8).max() > 1:
            raise ValueError(f"{name} has booleans that are neither 0 nor 1")
        return array
