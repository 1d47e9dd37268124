# SPDX-License-Identifier: Apache-2.0
"""Kernels of operators within the kernel of a loop: their own text, whose blocks and threads are pretended."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ..._compat import jaxprs_of, without_mesh
from ...backends.nvrtc.compiler import compiled
from ...backends.nvrtc.kernel import KernelSource
from ...backends.nvrtc.within import kernels_within_loop
from ...errors import BrainEventError
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Launch, PlanTarget
from ...toolchain.architectures import least_architecture
from ..values import Call, Texts, UnfitError
from .phases import Phase, owned, shared

__all__ = ["MOST_SHARED", "WARP", "KernelText", "fitting_kernel", "native_call"]

WARP = 32
_DEFINED = re.compile(r"-D(\w+)(?:=(.*))?")
_HARMLESS = re.compile(r"--?std=c\+\+\w+|-lineinfo|--generate-line-info")
_OF_BLOCKS = re.compile(r"\bbar(?:rier)?\b(?!\.warp)|\.shared\b")
_OF_OTHERS = re.compile(r"\bbar(?:rier)?\.(?!warp|sync\s+0;|cta\.sync\s+0;)\S+|\bcluster|\bcall\b|griddep")
_LANES = re.compile(r"\b(?:shfl|vote|match|redux|activemask)\b|\bbar\.warp\b")
_SHARED = re.compile(r"\.shared(?: \.align \d+)? \.(?:b|u|s|f)(\d+) ([\w$]+)(?:\[(\d+)\])?;")
MOST_SHARED = 40 * 1024  # bytes, of all kernels within a loop: a block has 48 KiB
_TOGETHER = "Lanes of a warp end together."
_AFTERWARDS = "Threads of a block meet before any of them ends."
_ALONE = re.compile(r"// Thread t reads (\w+)\[t\] alone\.")  # and no other element of this array
_FROM = re.compile(r"(\w+)|\((\w+) \+ (\d+)u\)")  # an array, or elements of it from a place on
_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
# Headers that know nothing of threads: those of pretended ones are not those of the GPU.
_HEADERS = re.compile(
    r"<(?:cuda/std/)?(?:(?:c?(?:math|stdint|stddef|limits|float))(?:\.h)?|limits|type_traits|utility|array|tuple)>"
    r"|<(?:cuda|cuda_runtime|cuda_fp16|cuda_bf16|math_constants|vector_types|vector_functions)\.h>"
)
_ASSEMBLY = re.compile(r"\b(?:__)?asm\b")
_OF_GPU = re.compile(r"%(?:tid|ntid|ctaid|nctaid|warpid|nwarpid|gridid|cluster)|\bbar(?:rier)?\.")
_BUILT_IN = re.compile(r"__builtin_nvvm|__nvvm_|read_ptx_sreg")
_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long",
    "float32": "float", "float64": "double",
}  # fmt: skip


@dataclass(frozen=True)
class KernelText:
    """The text of a kernel, and the blocks that it was written for; their threads may meet, and share some bytes."""

    source: KernelSource
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    meets: bool = False
    shared: int = 0

    @property
    def warps_of_block(self) -> int:
        """The number of warps of a block."""
        return -(-math.prod(self.block) // WARP)

    @property
    def warps(self) -> int:
        """The number of warps that run it."""
        return math.prod(self.grid) * self.warps_of_block

    def text(self, name: str) -> str:
        """Return it as a namespace; its kernels become functions."""
        unit = self.source.unit
        head = unit.text[: unit.text.index(unit.source)]
        body = re.sub(r"^#line .*$", "", head, flags=re.MULTILINE) + unit.source
        included = [match[0] for match in _INCLUDES.finditer(body)]
        body = _INCLUDES.sub("", body)
        body = re.sub(r'extern\s+"C"', "", body)
        body = re.sub(r"\b__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)", "", body)
        # Other threads write in the same kernel what this one reads: no array is one that only it knows.
        body = re.sub(r"\b__restrict__\b", "", re.sub(r"\b__global__\b", "__device__ __forceinline__", body))
        options = filter(None, map(_DEFINED.fullmatch, unit.options))
        macros = {option[1]: option[2] or "1" for option in options}
        macros |= self._indices()
        defined = [f"#define {macro} {value}" for macro, value in macros.items()]
        names = [*(macro.partition("(")[0] for macro in macros), *_DEFINITION.findall(body)]
        ended = [f"#undef {macro}" for macro in dict.fromkeys(names)]  # what follows is not of this kernel
        return "\n".join([*included, *defined, f"namespace {name} {{", body, "}", *ended, ""])

    def _indices(self) -> dict[str, str]:
        block, grid = (", ".join(map(str, sizes)) for sizes in (self.block, self.grid))
        meets = {"__syncthreads()": f"::meet_block<{WARP * self.warps_of_block}>()"} if self.meets else {}
        return meets | {
            "threadIdx": f"::thread_within<{block}>()",
            "blockIdx": f"::block_within<{math.prod(self.block)}, {self.grid[0]}, {self.grid[1]}>()",
            "blockDim": f"::Extents{{{block}}}",
            "gridDim": f"::Extents{{{grid}}}",
        }


@dataclass(frozen=True)
class _Threads:
    """Whether the threads of a block meet or share memory, and how many bytes of it."""

    meets: bool = False
    shared: int = 0


def _threads(target: Any) -> _Threads:
    """Return how threads of the kernel of a target depend on each other; raise if it cannot be part of another one."""
    title = f"the kernel {target.title!r}"
    if not isinstance(target, PlanTarget) or not isinstance(target.source, KernelSource):
        raise UnfitError(f"{title}, which is not CUDA C++ that NVRTC compiles")
    unit, launches = target.source.unit, target.plan.launches
    if len(launches) > 1 or any(launch.together or any(launch.cluster) for launch in launches):
        raise UnfitError(f"{title}, which is not a single launch of independent blocks")
    if odd := [o for o in unit.options if not (_DEFINED.fullmatch(o) or _HARMLESS.fullmatch(o))]:
        raise UnfitError(f"{title}, which is compiled with the option {odd[0]}")
    if odd := [name for name in _INCLUDES.findall(unit.source) if not _HEADERS.fullmatch(name.split("//")[0].strip())]:
        raise UnfitError(f"{title}, which includes {odd[0]}")
    if re.search(r'extern\s+"C"\s*\{|\b__constant__\b', unit.source):
        raise UnfitError(f'{title}, whose text has an extern "C" block or __constant__ memory')
    if (_ASSEMBLY.search(unit.source) and _OF_GPU.search(unit.source)) or _BUILT_IN.search(unit.source):
        raise UnfitError(f"{title}, whose assembly names threads or barriers")
    if any(launch.shared for launch in launches):
        raise UnfitError(f"{title}, whose shared memory has a size that is given at its launch")
    found = _dependence(unit, title) if launches else _Threads()
    if found.meets and any(math.prod(launch.block) % WARP for launch in launches):
        raise UnfitError(f"{title}, whose threads share memory or meet in blocks that are not whole warps")
    return found


def _dependence(unit: Any, title: str) -> _Threads:
    """Return how threads of a kernel depend on each other: from what the compiler makes of it.

    A warp of the loop runs warps of the kernel one after the other, and a block of the loop blocks, if their threads
    meet. A thread that returned early would not end, but wait for the others, and these for it, unless all of them
    return before any function that they call together.
    """
    least = least_architecture(cuda_capabilities)
    code = compiled("loops", unit, (least, least))  # of two architectures it makes PTX
    text = code.binary.decode()
    body = re.search(rf"\.entry {re.escape(code.entry)}\(.*?^\}}", text, re.DOTALL | re.MULTILINE)
    assert body is not None, "a kernel is in its own code"
    if _OF_OTHERS.search(body[0]) or re.search(r"^\.extern \.shared", text, re.MULTILINE):
        raise UnfitError(f"{title}, whose threads call functions or wait in a way that a loop does not know")
    if _LANES.search(body[0]) and _TOGETHER not in unit.source:
        why = f"whose lanes pass values to each other; write the comment `// {_TOGETHER}` in its text if they do"
        raise UnfitError(f"{title}, {why}")
    found = _SHARED.findall(text)
    shared_ = sum(int(bits) // 8 * int(count or 1) for bits, name, count in found if name in body[0])
    if not _OF_BLOCKS.search(body[0]) and not shared_:
        return _Threads()
    if _AFTERWARDS not in unit.source:
        why = f"whose threads share memory or meet; write the comment `// {_AFTERWARDS}` in its text if they do"
        raise UnfitError(f"{title}, {why}")
    return _Threads(True, shared_)


def fitting_kernel(chosen: Any, outs: Sequence[Any], operands: Sequence[Any]) -> Callable[..., Any]:
    """Return the chosen kernel of an operator as a function of arrays: its first variant that fits into a loop."""
    variants = chosen.entry.variants or ((),)
    why: UnfitError | None = None
    for variant in variants:
        own = replace(chosen, entry=replace(chosen.entry, variants=(variant,) if variant else ()))
        function = _within_loop(own.build(outs, own.carried.levels))
        try:
            with without_mesh():
                closed = jax.make_jaxpr(function)(*operands)
        except (BrainEventError, ImportError, NotImplementedError, TypeError, ValueError) as error:
            raise UnfitError(str(error).strip().partition("\n")[0]) from error
        try:
            for eqn in _native_calls(closed.jaxpr):
                _threads(eqn.params["target"])
        except UnfitError as problem:
            why = why or problem
        else:
            return function
    assert why is not None, "there is a variant"
    raise why


def _within_loop(build: Callable[..., Any]) -> Callable[..., Any]:
    def traced(*x: Any) -> Any:
        with kernels_within_loop():
            return build(*x)

    return traced


def _native_calls(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "native_call":
            yield eqn
        for inner in jaxprs_of(eqn):
            yield from _native_calls(inner)


def native_call(eqn: Any) -> Call:
    """Run the kernel of an operator, once for each element of a batch."""
    p, target = eqn.params, eqn.params["target"]
    threads = _threads(target)
    plan, count = target.plan, len(eqn.invars)
    sizes = [math.prod(var.aval.shape) for var in eqn.invars] + [math.prod(out.shape) for out in p["outs"]]
    levels = [(level.size, [*level.mapped, *[True] * len(p["outs"])]) for level in p["levels"]]
    for buffer in range(count):
        sizes[buffer] //= math.prod(size for size, mapped in levels if mapped[buffer])
    batch = math.prod(size for size, _ in levels)
    zeroes = tuple(buffer - count for buffer, _ in plan.zeroed)

    def run(launch: Launch, arrays: Sequence[str], tools: Any) -> Texts:
        kernel = KernelText(target.source, launch.grid, launch.block, threads.meets, threads.shared)
        name = tools.kernel(kernel)
        given = [_number(b, d) for b, d in zip(launch.parameters, target.source.numbers, strict=True)]
        for slot in launch.slots:
            given[slot.parameter] = f"Address{{{_element(arrays[slot.buffer], slot.buffer, sizes, levels)}}}"
        each = math.prod(launch.grid) if threads.meets else kernel.warps  # of an element of a batch
        lines, rest = [], f"w / {each}u"
        for number, (size, _) in enumerate(levels):
            lines.append(f"const unsigned j{number} = {rest} % {size}u;")
            rest = f"{rest} / {size}u"
        call = f"{name}::{target.source.unit.declaration.entry}({', '.join(given)});"
        lines.append(_of_threads(launch.block, call))
        return _played(kernel, lines, batch, _first_of_own(target, launch, arrays)[1] if batch == 1 else 0)

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        copies = [tools.copied(out[j], x[i], sizes[i] * batch) for i, j in p["aliases"] if x[i] != out[j]]
        x = [next((out[j] for k, j in p["aliases"] if k == i), text) for i, text in enumerate(x)]
        zeroed = [out[k] for k in zeroes]
        lines = [line for launch in plan.launches for line in run(launch, [*x, *out], tools)]
        own = _first_of_own(target, plan.launches[0], x)[0] if batch == 1 and plan.launches else set[int]()
        others = [text for buffer, text in enumerate(x) if buffer not in own]
        kernel = Phase(lines, shared(others, out) | owned(x[buffer] for buffer in own))
        before, after = tools.zeroed(zeroed, [batch * sizes[buffer] for buffer, _ in plan.zeroed])
        return [*copies, *before, kernel, *after]

    if batch * max((math.prod(each.grid) * math.prod(each.block) for each in plan.launches), default=0) >= 2**31:
        raise UnfitError(f"the kernel {target.title!r}, which has more than 2 billion threads")
    return Call(target.title, write, reuses=tuple(p["aliases"]), is_kernel=True, zeroes=zeroes)


def _first_of_own(target: Any, launch: Launch, arrays: Sequence[str]) -> tuple[set[int], int]:
    """Return the arrays of which each thread of a kernel reads its own element, and the first of these elements.

    These elements belong to the threads of the loop that made them, so each of them runs the threads of the kernel that
    read them. That is possible for a slice, too, if it begins at an element of the first thread of a warp.
    """
    unit = target.source.unit
    named = set(_ALONE.findall(unit.source))
    in_order = math.prod(launch.block) == launch.block[0] and launch.block[0] % WARP == 0 and launch.grid[1:] == (1, 1)
    firsts: dict[int, int] = {}
    for slot in launch.slots if named and in_order else ():
        if unit.declaration.parameters[slot.parameter].name in named and slot.buffer < len(arrays):
            found = _FROM.fullmatch(arrays[slot.buffer])
            if found and int(found[3] or 0) % WARP == 0:
                firsts[slot.buffer] = int(found[3] or 0)
    first = min(firsts.values(), default=0)
    return {buffer for buffer, begin in firsts.items() if begin == first}, first


def _of_threads(block: Sequence[int], call: str) -> str:
    """Return a call that only the threads of a block make, whose last warp may not be a whole one."""
    threads = math.prod(block)
    return call if threads % WARP == 0 else f"if (linear_thread<{', '.join(map(str, block))}>() < {threads}u) {call}"


def _played(kernel: KernelText, lines: Texts, batch: int, first: int) -> Texts:
    """Return the loop in which warps run warps of a kernel from its `first` own element on, or blocks its blocks."""
    if not kernel.meets:
        begin = f"(tid / 32 + threads - {first // WARP}u % (threads / 32)) % (threads / 32)" if first else "tid / 32"
        head = f"for (unsigned w = {begin}; w < {kernel.warps * batch}u; w += threads / 32) {{"
        lines = [f"WARP_WITHIN = w % {kernel.warps}u;", "meet_warp();", *lines, "meet_warp();"]
        return [head, *(f"    {line}" for line in lines), "}"]
    blocks, warps = math.prod(kernel.grid), kernel.warps_of_block
    lines = [f"WARP_WITHIN = w % {blocks}u * {warps}u + threadIdx.x / 32;", "meet_warp();", *lines]
    lines.append(f"meet_block<{WARP * warps}>();")  # before the memory that threads share is that of another block
    head = f"for (unsigned w = blockIdx.x; w < {blocks * batch}u; w += LOOP_BLOCKS) {{"
    loop = [head, *(f"    {line}" for line in lines), "}"]
    # Some threads of the block may still run another kernel, whose blocks have another size: first, they end.
    return ["meet_threads();", f"if (threadIdx.x < {WARP * warps}u) {{", *(f"    {line}" for line in loop), "}"]


def _element(text: str, buffer: int, sizes: Sequence[int], levels: Sequence[tuple[int, Sequence[bool]]]) -> str:
    """Return where an array of one element of a batch begins; the first level is the innermost."""
    stride, terms = sizes[buffer], [text]
    for number, (size, mapped) in enumerate(levels):
        if mapped[buffer]:
            terms.append(f"j{number} * {stride}u")
            stride *= size
    return " + ".join(terms)


def _number(content: bytes, dtype: str) -> str:
    """Return a number as it is written in C++; arrays are filled in later."""
    if not dtype:
        return ""
    if dtype not in _C_TYPES:
        raise UnfitError(f"a kernel with a number of {dtype}")
    value = np.frombuffer(content, dtype)[0]
    if dtype == "bool":
        return "true" if value else "false"
    if dtype.startswith("float"):
        if not np.isfinite(value):
            raise UnfitError("a kernel with a number that is not finite")
        return f"{float(value).hex()}{'f' if dtype == 'float32' else ''}"
    if int(value) == -(2**63):
        return "(-9223372036854775807ll - 1)"
    return f"({_C_TYPES[dtype]}){int(value)}{'ull' if dtype.startswith('u') else 'll'}"
