# SPDX-License-Identifier: Apache-2.0
"""`Processes`: what processes of `jax.distributed` tell each other, by all-gathers in programs of JAX.

All of them do the same in the same order. Before they do something together, they compare what it is; a process that
does something else, fails or does not come is named, and nobody waits for it for ever.
"""

from __future__ import annotations

import functools
import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import numpy as np

from ...errors import NetworkError

__all__ = ["Processes", "digest_of"]

_VARIABLE = "BRAINEVENT_PATIENCE"
_PATIENCE = 600.0  # seconds
_SPINNING, _NAP = 0.005, 0.00005  # seconds: how long to look without a pause whether devices are done; then a pause
_OTHERS = "the state may not be valid, and this process cannot take part any more: start all processes again"

# Words of 32 bits of what is compared: whether this process failed, numbers, what it does, digests, and an error.
_NUMBERS, _WHAT, _NAMES, _TEXT = 4, 16, 16, 96
_LENGTH = 1 + 2 * _NUMBERS + _WHAT + 2 * _NAMES + _TEXT

Array = Any


class Processes:
    """The processes of `jax.distributed`, of which this is one.

    Attributes:
        number: The number of this process.
        count: How many there are.
        seconds: How long this process took part in all-gathers, and waited for others there.
        gathers: How many all-gathers there were.
    """

    def __init__(self) -> None:
        self.number, self.count = jax.process_index(), jax.process_count()
        self.seconds, self.gathers = 0.0, 0
        self.patience = _patience()
        self._lost = ""

    def gathered(self, words: Array) -> Array:
        """Return the words of all processes, uint32 (count, size), given the own ones, as many in each of them."""
        if self.count == 1:
            return words[None]
        return self.together(lambda: _gathered(self.count, words))

    def together(self, act: Callable[[], Any]) -> Any:
        """Return what a program of JAX returns that all processes run at the same time, such as a gathering."""
        with self._taking_part():
            return self._awaited(act)

    def wait_for(self, is_done: Callable[[], bool], leave: Callable[[], None]) -> None:
        """Wait until devices have done what those of all processes do together; if others do not come, leave it."""
        with self._taking_part():
            began = time.monotonic()
            try:
                while not is_done():
                    waited = time.monotonic() - began
                    if waited > self.patience:
                        raise self._impatient()
                    if waited > _SPINNING:
                        time.sleep(_NAP)
            except BaseException:
                leave()
                raise

    @contextmanager
    def _taking_part(self) -> Iterator[None]:
        """Note how long this process takes part in something, and that it cannot any more when this fails."""
        if self._lost:
            raise NetworkError(f"hosts: {self._lost}; {_OTHERS}")
        began = time.monotonic()
        try:
            yield
        except NetworkError:  # a ValueError, too
            raise
        except (jax.errors.JaxRuntimeError, ConnectionError, ValueError) as error:  # the last where JAX runs at once
            self._lost = f"another process ended, or its host cannot be reached ({_first_line(error)})"
            raise NetworkError(f"hosts: {self._lost}; {_OTHERS}") from error
        except BaseException as error:
            self._lost = f"this process left the others ({type(error).__name__})"
            raise
        self.seconds += time.monotonic() - began
        self.gathers += 1

    def _impatient(self) -> NetworkError:
        """Return the error of a process that was awaited in vain."""
        self._lost = (
            f"a process did not come within {self.patience:g} seconds (the environment variable {_VARIABLE}) "
            "to do what the others do"
        )
        return NetworkError(f"hosts: {self._lost}; {_OTHERS}")

    def _awaited(self, act: Callable[[], Any]) -> Any:
        """Let a thread act, since a program of JAX cannot be left; wait for it as long as there is patience."""
        answer = queue.SimpleQueue[Any]()
        _asked().put((act, answer))
        try:
            found = answer.get(timeout=self.patience)
        except queue.Empty:
            raise self._impatient() from None
        if isinstance(found, BaseException):
            raise found
        return found

    def agreed(self, what: str, values: Mapping[str, Any], numbers: Sequence[int] = ()) -> Array:
        """Raise in all processes unless all do the same with the same values; return the numbers of each, int64."""
        digests = [digest_of(value) for value in values.values()]
        told = self._told(what, digests, numbers)
        self._check(told, what, list(values))
        return told[:, 1 : 1 + 2 * _NUMBERS].copy().view(np.int64)

    def _told(self, what: str, digests: Sequence[bytes], numbers: Sequence[int], failure: str = "") -> Array:
        assert len(digests) <= _NAMES, len(digests)
        assert len(numbers) <= _NUMBERS, len(numbers)
        words = np.zeros(_LENGTH, np.uint32)
        words[0] = bool(failure)
        words[1 : 1 + 2 * len(numbers)] = np.array(numbers, np.int64).view(np.uint32)
        for at, size, data in (
            (1 + 2 * _NUMBERS, _WHAT, what.encode()),
            (1 + 2 * _NUMBERS + _WHAT, 2 * _NAMES, b"".join(digests)),
            (_LENGTH - _TEXT, _TEXT, failure.encode()),
        ):
            fitting = np.frombuffer(data, np.uint8)[: 4 * size]
            words[at : at + size].view(np.uint8)[: fitting.size] = fitting
        return self.gathered(words)

    def _check(self, told: Array, what: str, names: Sequence[str]) -> None:
        """Raise if some process failed, or does something else than the first one."""
        at = 1 + 2 * _NUMBERS
        if failed := np.flatnonzero(told[:, 0]).tolist():
            raise NetworkError(f"{what}: process {failed[0]} failed: {_text(told[failed[0], _LENGTH - _TEXT :])}")
        does = [_text(words[at : at + _WHAT]) for words in told]
        for number, other in enumerate(does):
            if other != does[0]:
                raise NetworkError(
                    f"hosts: process 0 calls {does[0]}, and process {number} calls {other}; all processes must do the "
                    "same, in the same order"
                )
        digests = told[:, at + _WHAT : _LENGTH - _TEXT].copy().view(np.uint64)
        for place, name in enumerate(names):
            for number in range(self.count):
                if digests[number, place] != digests[0, place]:
                    raise NetworkError(
                        f"{what}: processes 0 and {number} differ in {name}; pass the same in all processes"
                    )

    def raise_failure(self, what: str, error: BaseException | None) -> NoReturn:
        """Raise the error of this process, or that of another one, when all processes know that one failed."""
        told = self._told(what, (), (), f"{type(error).__name__}: {error}" if error is not None else "")
        if error is not None:
            raise error
        self._check(told, what, ())
        raise AssertionError("no process failed")

    @contextmanager
    def failing_together(self, what: str) -> Iterator[None]:
        """Tell the others, who wait for this process where the block ends, if something in the block fails here."""
        try:
            yield
        except Exception as error:
            self._told(what, (), (), f"{type(error).__name__}: {error}")
            raise

    def bytes_of_all(self, what: str, own: Array) -> list[Array]:
        """Return the bytes, uint8 (n,), of all processes, given the own ones."""
        sizes = self.agreed(what, {}, [own.size])[:, 0]
        words = np.zeros(-(-int(sizes.max()) // 4), np.uint32)
        if not words.size:
            return [own[:0] for _ in sizes]
        words.view(np.uint8)[: own.size] = own
        return [one.view(np.uint8)[:size] for one, size in zip(self.gathered(words), sizes.tolist(), strict=True)]

    def arrays_of_all(self, what: str, own: Sequence[Array], like: Callable[[int], Any]) -> list[list[Array]]:
        """Return the arrays of all processes; `like(number)` has pairs of the dtype and shape of each of theirs."""
        flat = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in own]
        found = self.bytes_of_all(what, np.concatenate(flat) if flat else np.zeros(0, np.uint8))
        return [_apart(data, like(number)) for number, data in enumerate(found)]


def _apart(data: Array, kinds: Sequence[tuple[Any, tuple[int, ...]]]) -> list[Array]:
    """Return the arrays that lie one after another in bytes."""
    found, at = [], 0
    for dtype, shape in kinds:
        size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        found.append(data[at : at + size].copy().view(dtype).reshape(shape))
        at += size
    assert at == data.size
    return found


def digest_of(value: Any) -> bytes:
    """Return 8 bytes that differ if two values do: arrays, numbers, texts, and trees of them."""
    digest = hashlib.blake2b(digest_size=8)
    leaves, tree = jax.tree.flatten(value)
    digest.update(str(tree).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        if array.dtype.kind in "OSU":
            digest.update(repr(leaf).encode())
        else:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.digest()


@functools.cache
def _asked() -> queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]]]:
    """Start the thread that runs programs of all processes; return where it is asked, and told where it answers."""
    asked = queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]]]()

    def work() -> None:
        while True:
            act, answer = asked.get()
            try:
                answer.put(act())
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                answer.put(error)

    threading.Thread(target=work, name="brainevent hosts", daemon=True).start()
    return asked


def _gathered(count: int, words: Array) -> Array:
    """Return the words of all processes, given the own ones."""
    device, sharding, gather = _program(count)
    own = jax.device_put(words[None], device)
    whole = jax.make_array_from_single_device_arrays((count, words.size), sharding, [own])
    return np.asarray(gather(whole).addressable_data(0))


@functools.cache
def _program(count: int) -> Any:
    """Return the device of this process, how words lie on all devices, and the program that gathers them."""
    devices = [next((d for d in jax.devices("cpu") if d.process_index == k), None) for k in range(count)]
    if None in devices:
        raise NetworkError(
            "build: the CPUs of other processes cannot be reached; set "
            'jax.config.update("jax_cpu_collectives_implementation", "gloo") before jax.distributed.initialize'
        )
    mesh = jax.sharding.Mesh(np.array(devices), ("hosts",))
    of_each, of_all = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (("hosts",), ()))
    return devices[jax.process_index()], of_each, jax.jit(lambda words: words, out_shardings=of_all)


def _text(words: Array) -> str:
    return np.ascontiguousarray(words).tobytes().rstrip(b"\0").decode(errors="replace")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


def _patience() -> float:
    """Return how many seconds this process waits for others."""
    given = os.environ.get(_VARIABLE, "").strip()
    try:
        seconds = float(given) if given else _PATIENCE
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise NetworkError(f"{_VARIABLE} is {given!r}; pass a positive number of seconds")
    return seconds
