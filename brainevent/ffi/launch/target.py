# SPDX-License-Identifier: Apache-2.0
"""Plans are parts of custom calls, and are loaded with the program."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import frame, last_words, pulse
from ..callbacks import native_address
from ..elements import OTHER_ARRAYS
from ..portable import GRAPH_TARGET, PAYLOAD, TARGET, pack
from . import driver
from .plan import ZEROING, Launch, LaunchPlan, Slot

__all__ = ["PlanTarget", "load", "loaded"]

_plans: dict[int, LaunchPlan] = {}  # by the address of the memory that the handler reads


@dataclass(frozen=True)
class PlanTarget:
    """A plan as a target of `native_call`; `again` makes the plan for operands and results of other ranks."""

    plan: LaunchPlan
    again: Callable[[Sequence[Any], Sequence[Any]], LaunchPlan] = field(compare=False, repr=False)
    platform: str = "cuda"
    # What its kernel was compiled from, or what is said of it, if that is known.
    source: Any = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        """The target's name: the same for all plans."""
        return GRAPH_TARGET if self.plan.in_graphs else TARGET

    @property
    def title(self) -> str:
        """The kernel's name, for messages."""
        return self.plan.title

    @property
    def attributes(self) -> dict[str, Any]:
        """The plan itself."""
        return {PAYLOAD: _packed(self.plan, self.platform != "cpu")}

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Return itself: it contains nothing of this process."""
        return self.name, {}

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> PlanTarget:
        """Return the same kernel's plan for other ranks."""
        return PlanTarget(self.again(operands, outs), self.again, self.platform)


@functools.lru_cache(maxsize=256)
def _packed(plan: LaunchPlan, streams: bool) -> np.ndarray:
    binaries = list(dict.fromkeys(launch.binary for launch in plan.launches))
    launches = [
        {
            **{key: value for key, value in asdict(launch).items() if key not in ("binary", "parameters")},
            "binary": binaries.index(launch.binary),
            "parameters": [parameter.hex() for parameter in launch.parameters],
        }
        for launch in plan.launches
    ]
    header = {
        "title": plan.title,
        "streams": streams,
        "host": plan.host,
        "buffers": plan.buffers,
        "zeroed": plan.zeroed,
        "steps": plan.steps,
        "launches": launches,
        "sizes": [len(b) for b in binaries],
    }
    return pack("plan", header, b"".join(binaries))


def _unpacked(header: dict[str, Any], code: bytes) -> LaunchPlan:
    ends = np.cumsum([0, *header["sizes"]]).tolist()
    binaries = [code[start:end] for start, end in itertools.pairwise(ends)]
    launches = tuple(
        Launch(
            binary=binaries[row["binary"]],
            entry=row["entry"],
            title=row["title"],
            grid=tuple(row["grid"]),
            block=tuple(row["block"]),
            parameters=tuple(bytes.fromhex(parameter) for parameter in row["parameters"]),
            slots=tuple(Slot(**slot) for slot in row["slots"]),
            shared=row["shared"],
            together=row.get("together", False),  # programs that were exported before it existed
            cluster=tuple(row.get("cluster", (0, 0, 0))),
            done=row.get("done", 0),
        )
        for row in header["launches"]
    )
    zeroed = tuple((b, n) for b, n in header["zeroed"])
    steps = header.get("steps", 0)
    return LaunchPlan(header["title"], header["buffers"], launches, zeroed, host=header["host"], steps=steps)


def _driver(plan: LaunchPlan) -> Any:
    if not plan.host:
        return driver.driver()
    from .host import host

    return host()


def load(header: dict[str, Any], code: bytes) -> ctypes.Array[ctypes.c_int64]:
    """Return the words that the handler reads, the first of which is its own address."""
    return loaded(_unpacked(header, code), streams=bool(header["streams"]))


def loaded(plan: LaunchPlan, *, streams: bool) -> ctypes.Array[ctypes.c_int64]:
    """Load the kernels of a plan, and return its words; `streams` says whether calls have a stream."""
    from .handler import handler_address

    its = _driver(plan)
    words = [
        handler_address(),
        _report_address(),
        int(streams),
        plan.buffers,
        its.address("cuLaunchKernel"),
        its.address("cuLaunchCooperativeKernel"),
        its.address("cuMemsetD8Async"),
        *((its.address("cuStreamSynchronize"), *pulse.addresses()) if plan.steps else (0, 0, 0)),
        plan.steps,
        len(plan.zeroed),
        len(plan.launches),
        *(word for pair in plan.zeroed for word in pair),
    ]
    for launch in plan.launches:
        words += _words(launch, its.kernel(launch.binary, launch.entry, launch.shared, launch.cluster))
    memory = (ctypes.c_int64 * len(words))(*words)
    _plans[ctypes.addressof(memory)] = plan
    return memory


def _words(launch: Launch, kernel: int) -> list[int]:
    """Return the words of a launch for the handler."""
    block, offsets = b"", []
    for parameter in launch.parameters:
        block += bytes(-len(block) % 16)
        offsets.append(len(block))
        block += parameter
    block += bytes(-len(block) % 8)
    counts = [len(block) // 8, len(offsets), len(launch.slots)]
    data = np.frombuffer(block, np.int64).tolist()
    slots = [w for s in launch.slots for w in (offsets[s.parameter] + s.byte, s.buffer, s.shift, s.alignment - 1)]
    head = [kernel, *launch.grid, *launch.block, launch.shared, launch.together, launch.done]
    return [*head, *counts, *data, *offsets, *slots]


@functools.cache
def _report_address() -> int:
    return native_address(_report, lambda error: f"a kernel of this program failed: {error!r}", words=4)


def _report(call_frame: int, memory: int, index: int, code: int) -> int:
    """Make an error from CUDA's status of a launch, or from another failure."""
    try:
        message = _message(call_frame, _plans[memory], index, code)
    except Exception as error:  # noqa: BLE001 - then this error is reported
        message = f"a kernel of this program failed with the code {code}, and its report failed: {error!r}"
    # A name may contain characters that UTF-8 cannot encode.
    return last_words.make_error(call_frame, message.encode(errors="replace").decode())


def _message(call_frame: int, plan: LaunchPlan, index: int, code: int) -> str:
    span = frame.read_attribute(call_frame, "be.operator")
    size, text = frame.read_word(span, "XLA_FFI_ByteSpan.len"), frame.read_word(span, "XLA_FFI_ByteSpan.ptr")
    operator = ctypes.string_at(text, size).decode()
    where = f"operator {operator!r}, kernel {plan.title!r}" if operator else f"kernel {plan.title!r}"
    if index == OTHER_ARRAYS:
        return f"{where}: called with other arrays than it was made for"
    if index == ZEROING:
        return f"{where}: setting results to zero: {_driver(plan).error_name(code)}"
    launch = plan.launches[index]
    if code >= 0:
        return f"{where}: {launch}: {_driver(plan).error_name(code)}"
    slot = launch.slots[-code - 1]
    inputs = frame.read_word(call_frame, "XLA_FFI_CallFrame.args.size")
    which = f"input {slot.buffer}" if slot.buffer < inputs else f"output {slot.buffer - inputs}"
    return (
        f"{where}: {launch}: {which} begins at an address that is not a multiple of {slot.alignment}, and the kernel "
        "reads vectors of that many bytes. Under vmap each element of the batch is an array of its own: pad its last "
        f"axis to a multiple of {slot.alignment} bytes, or read single numbers in the kernel"
    )
