# SPDX-License-Identifier: Apache-2.0
"""Kernels of operators within the kernel of a loop: their own text or PTX, whose blocks and threads are pretended."""

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
from ...ffi.launch import Assembly, Launch, PlanTarget
from ...toolchain.architectures import least_architecture
from ..values import Call, Texts, UnfitError
from .assembly import AssemblyText, read_ptx
from .blocks import WARP, Blocks
from .phases import Phase, owned, shared

__all__ = ["MOST_SHARED", "KernelText", "fitting_kernel", "native_call"]

_DEFINED = re.compile(r"-D(\w+)(?:=(.*))?")
_HARMLESS = re.compile(r"--?std=c\+\+\w+|-lineinfo|--generate-line-info|--?fmad=false|--?ftz=true")  # loops have these
_OF_BLOCKS = re.compile(r"\bbar(?:rier)?\b(?!\.warp)|\.shared\b")
_OF_OTHERS = re.compile(r"\bbar(?:rier)?\.(?!warp|sync\s+0;|cta\.sync\s+0;)\S+|\bcluster|\bcall\b|griddep")
_LANES = re.compile(r"\b(?:shfl|vote|match|redux|activemask)\b|\bbar\.warp\b")
_SHARED = re.compile(r"\.shared(?: \.align \d+)? \.(?:b|u|s|f)(\d+) ([\w$]+)(?:\[(\d+)\])?;")
MOST_SHARED = 40 * 1024  # bytes, of all kernels within a loop: a block has 48 KiB
_TOGETHER = "Lanes of a warp end together."
_AFTERWARDS = "Threads of a block meet before any of them ends."
_ALONE = re.compile(r"Thread t (reads|writes) (\w+)\[t\] alone\.")  # and no other element of this array
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


@dataclass(frozen=True, kw_only=True)
class KernelText(Blocks):
    """The text of a kernel in CUDA C++."""

    source: KernelSource

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
            "threadIdx": self.thread,
            "blockIdx": self.place,
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
    source = target.source if isinstance(target, PlanTarget) else None
    if not isinstance(source, (KernelSource, Assembly)):
        raise UnfitError(f"{title}, which is neither CUDA C++ that NVRTC compiles nor one of Numba-CUDA")
    launches = target.plan.launches
    if len(launches) > 1 or any(launch.together or any(launch.cluster) for launch in launches):
        raise UnfitError(f"{title}, which is not a single launch of independent blocks")
    if isinstance(source, KernelSource):
        _check_text(source.unit, title)
    if any(launch.shared for launch in launches):
        raise UnfitError(f"{title}, whose shared memory has a size that is given at its launch")
    found = _dependence(target, title) if launches else _Threads()
    if found.meets and any(math.prod(launch.block) % WARP for launch in launches):
        raise UnfitError(f"{title}, whose threads share memory or meet in blocks that are not whole warps")
    for launch in launches if isinstance(source, Assembly) else ():
        _written(target, launch, found).text("")  # raises for what is not known
    return found


def _check_text(unit: Any, title: str) -> None:
    """Raise if the text of a kernel means something else within a loop."""
    if odd := [o for o in unit.options if not (_DEFINED.fullmatch(o) or _HARMLESS.fullmatch(o))]:
        raise UnfitError(f"{title}, which is compiled with the option {odd[0]}")
    if odd := [name for name in _INCLUDES.findall(unit.source) if not _HEADERS.fullmatch(name.split("//")[0].strip())]:
        raise UnfitError(f"{title}, which includes {odd[0]}")
    if re.search(r'extern\s+"C"\s*\{|\b__constant__\b', unit.source):
        raise UnfitError(f'{title}, whose text has an extern "C" block or __constant__ memory')
    if (_ASSEMBLY.search(unit.source) and _OF_GPU.search(unit.source)) or _BUILT_IN.search(unit.source):
        raise UnfitError(f"{title}, whose assembly names threads or barriers")


def _ptx(target: Any) -> tuple[str, str]:
    """Return the PTX of a module, and of the body of the target's kernel in it."""
    if isinstance(target.source, Assembly):
        [launch] = target.plan.launches
        ptx = read_ptx(launch.binary, launch.entry)
        return ptx.module, ptx.body
    least = least_architecture(cuda_capabilities)
    code = compiled("loops", target.source.unit, (least, least))  # of two architectures it makes PTX
    text = code.binary.decode()
    body = re.search(rf"\.entry {re.escape(code.entry)}\(.*?^\}}", text, re.DOTALL | re.MULTILINE)
    assert body is not None, "a kernel is in its own code"
    return text, body[0]


def _dependence(target: Any, title: str) -> _Threads:
    """Return how threads of a kernel depend on each other: from what the compiler makes of it.

    A warp of the loop runs warps of the kernel one after the other, and a block of the loop blocks, if their threads
    meet. A thread that returned early would not end, but wait for the others, and these for it, unless all of them
    return before any function that they call together.
    """
    text, body = _ptx(target)
    said, form = _said(target.source)
    if _OF_OTHERS.search(body) or re.search(r"^\s*\.extern \.shared", text, re.MULTILINE):
        raise UnfitError(f"{title}, whose threads call functions or wait in a way that a loop does not know")
    if _LANES.search(body) and _TOGETHER not in said:
        why = f"whose lanes pass values to each other; write {form.format(_TOGETHER)} if they do"
        raise UnfitError(f"{title}, {why}")
    found = _SHARED.findall(text)
    shared_ = sum(int(bits) // 8 * int(count or 1) for bits, name, count in found if name in body)
    if not _OF_BLOCKS.search(body) and not shared_:
        return _Threads()
    if _AFTERWARDS not in said:
        why = f"whose threads share memory or meet; write {form.format(_AFTERWARDS)} if they do"
        raise UnfitError(f"{title}, {why}")
    return _Threads(True, shared_)


def _said(source: KernelSource | Assembly) -> tuple[str, str]:
    """Return what is said of the kernel, and how a sentence is added."""
    if isinstance(source, Assembly):
        return source.said, "`{}` in its docstring"
    return source.unit.source, "the comment `// {}` in its text"


def _written(target: Any, launch: Launch, threads: _Threads) -> KernelText | AssemblyText:
    """Return a launch of a kernel as it becomes part of the text of a loop."""
    how = (launch.grid, launch.block, threads.meets, threads.shared)
    if isinstance(target.source, Assembly):
        return AssemblyText(*how, launch=launch, title=f"the kernel {target.title!r}")
    return KernelText(*how, source=target.source)


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
            raise UnfitError(_first_sentence(error)) from error
        try:
            for eqn in _native_calls(closed.jaxpr):
                _threads(eqn.params["target"])
        except UnfitError as problem:
            why = why or problem
        else:
            return function
    assert why is not None, "there is a variant"
    raise why


def _first_sentence(error: Exception) -> str:
    """Return what an error says first: lines up to one that does not end in a colon."""
    found = list[str]()
    for line in map(str.strip, str(error).strip().splitlines()):
        found.append(line)
        if not line.endswith(":"):
            break
    return " ".join(found)


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

    def own_of(launch: Launch, arrays: Sequence[str]) -> tuple[set[int], int]:
        is_own = batch == 1 and not threads.meets  # else other threads of the loop run those of the kernel
        return _first_of_own(target, launch, arrays, count) if is_own else (set(), 0)

    def run(launch: Launch, arrays: Sequence[str], tools: Any) -> Texts:
        kernel = _written(target, launch, threads)
        name = tools.kernel(kernel)
        addresses = [f"Address{{{_element(arrays[b], b, sizes, levels)}}}" for b in (s.buffer for s in launch.slots)]
        each = math.prod(launch.grid) if threads.meets else kernel.warps  # of an element of a batch
        lines, rest = [], f"w / {each}u"
        for number, (size, _) in enumerate(levels):
            lines.append(f"const unsigned j{number} = {rest} % {size}u;")
            rest = f"{rest} / {size}u"
        lines.append(_of_threads(launch.block, f"{name}::{_called(target.source, launch, addresses)};"))
        return _played(kernel, lines, batch, own_of(launch, arrays)[1])

    def write(x: Sequence[str], out: Sequence[str], tools: Any) -> list[Phase]:
        copies = [tools.copied(out[j], x[i], sizes[i] * batch) for i, j in p["aliases"] if x[i] != out[j]]
        x = [next((out[j] for k, j in p["aliases"] if k == i), text) for i, text in enumerate(x)]
        zeroed = [out[k] for k in zeroes]
        arrays = [*x, *out]
        lines = [line for launch in plan.launches for line in run(launch, arrays, tools)]
        own = own_of(plan.launches[0], arrays)[0] if plan.launches else set[int]()

        def accessed(is_own: bool) -> Iterator[list[str]]:
            for buffers in (range(count), range(count, len(arrays))):
                yield [arrays[buffer] for buffer in buffers if (buffer in own) == is_own]

        kernel = Phase(lines, shared(*accessed(is_own=False)) | owned(*accessed(is_own=True)))
        before, after = tools.zeroed(zeroed, [batch * sizes[buffer] for buffer, _ in plan.zeroed])
        return [*copies, *before, kernel, *after]

    if batch * max((math.prod(each.grid) * math.prod(each.block) for each in plan.launches), default=0) >= 2**31:
        raise UnfitError(f"the kernel {target.title!r}, which has more than 2 billion threads")
    return Call(target.title, write, reuses=tuple(p["aliases"]), is_kernel=True, zeroes=zeroes)


def _called(source: KernelSource | Assembly, launch: Launch, addresses: Sequence[str]) -> str:
    """Return the call of a kernel in its namespace, with addresses in the order of its slots."""
    if isinstance(source, Assembly):
        return f"run({', '.join(addresses)})"
    given = [_number(b, d) for b, d in zip(launch.parameters, source.numbers, strict=True)]
    for slot, address in zip(launch.slots, addresses, strict=True):
        given[slot.parameter] = address
    return f"{source.unit.declaration.entry}({', '.join(given)})"


def _names(source: KernelSource | Assembly, launch: Launch) -> list[str]:
    """Return the names of arrays, as a kernel calls them, in the order of its slots."""
    if isinstance(source, Assembly):
        return [source.names[slot.buffer] if slot.buffer < len(source.names) else "" for slot in launch.slots]
    return [source.unit.declaration.parameters[slot.parameter].name for slot in launch.slots]


def _first_of_own(target: Any, launch: Launch, arrays: Sequence[str], inputs: int) -> tuple[set[int], int]:
    """Return the arrays of which each thread of a kernel has its own element, and the first of these elements.

    These elements belong to the threads of the loop that make or read them, so each of them runs the threads of the
    kernel that have them. That is possible for a slice, too, if it begins at an element of the first thread of a warp.
    """
    named = set(_ALONE.findall(_said(target.source)[0]))
    in_order = math.prod(launch.block) == launch.block[0] and launch.block[0] % WARP == 0 and launch.grid[1:] == (1, 1)
    firsts: dict[int, int] = {}
    for slot, name in zip(launch.slots, _names(target.source, launch), strict=True) if named and in_order else ():
        if ("reads" if slot.buffer < inputs else "writes", name) in named:
            found = _FROM.fullmatch(arrays[slot.buffer])
            if found and int(found[3] or 0) % WARP == 0:
                firsts[slot.buffer] = int(found[3] or 0)
    first = min(firsts.values(), default=0)
    return {buffer for buffer, begin in firsts.items() if begin == first}, first


def _of_threads(block: Sequence[int], call: str) -> str:
    """Return a call that only the threads of a block make, whose last warp may not be a whole one."""
    threads = math.prod(block)
    return call if threads % WARP == 0 else f"if (linear_thread<{', '.join(map(str, block))}>() < {threads}u) {call}"


def _played(kernel: Blocks, lines: Texts, batch: int, first: int) -> Texts:
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
