# SPDX-License-Identifier: Apache-2.0
"""The stages of a plan as phases of the kernel: of the loop itself, or of a loop or a branch within it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...scalar.cuda_text import TYPES
from ...scalar.form import Form, Name
from ..lanes import form_of_nodes
from ..named import Named
from ..values import HALVES, Array, Call, Node, Plan, Texts, UnfitError, View, held, reads_own
from .assembly import AssemblyText
from .blocks import WARP
from .kernels import MOST_SHARED, KernelText
from .nests import KEPT, OWN, each, each_kept, each_read_first, index_of
from .numbers import STORED, computed, nbytes
from .phases import Item, Phase, owned, shared

__all__ = ["CallWithin", "Common", "Memory", "Stages", "nodes_within", "steps_of"]

_ALIGNED = 16  # bytes
_LESS = 8  # threads of a kernel within the loop that one thread is enough for
_STEPS_OF_WHILE = 4  # that a while_loop is expected to have


@dataclass
class Memory:
    """Arrays of the kernel's own, one after the other, after the words in which blocks meet."""

    words: int
    nbytes: int = 0
    lines: Texts = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nbytes = -(-4 * self.words // _ALIGNED) * _ALIGNED

    def add(self, name: str, dtype: str, size: int) -> None:
        """Add an array."""
        kind = STORED[dtype]
        self.lines.append(f"{kind}* const {name} = ({kind}*)(given.memory + {self.nbytes}ull);")
        self.nbytes += -(-size * nbytes(dtype) // _ALIGNED) * _ALIGNED


@dataclass
class Common:
    """What the loop and those within it have together: memory, forms, kernels of operators, and sizes."""

    memory: Memory
    forms: list[Form] = field(default_factory=list)
    kernels: dict[KernelText | AssemblyText, str] = field(default_factory=dict)
    widest: int = 0  # threads that have something to do
    elements: int = 0  # that a step computes, or reads in calls
    scratches: int = 0
    loops: int = 0
    of_block: int = 0  # threads that a block has at least
    is_wide: bool = False  # numbers of 64 or 16 bits are among those of the loop


@dataclass(frozen=True)
class CallWithin(Call):
    """A loop or a branch within the loop. Scalars among its first `results` are in registers; all others in memory."""

    results: int = 0


def nodes_within(plan: Plan) -> Iterator[tuple[Node, int]]:
    """Yield the nodes of a plan and of those within it, and about how often each runs in a step."""
    for node in plan.nodes():
        yield node, 1
        for inner in node.call.plans if node.call is not None else ():
            for each_node, times in nodes_within(inner):
                yield each_node, times * steps_of(inner)


def steps_of(plan: Plan) -> int:
    """Return the number of steps of a loop, or about that."""
    return _STEPS_OF_WHILE if plan.length is None else plan.length


class Stages(Named[Item]):
    """What writes a plan that runs about so many `times` in a step of the loop."""

    def __init__(self, plan: Plan, common: Common, prefix: str = "", times: int = 1):
        super().__init__(plan, prefix)
        for array in (*plan.inputs, *(array for node in plan.nodes() for array in node.outs)):
            if array.dtype not in STORED:
                raise UnfitError(f"numbers of {array.dtype}, on a GPU")
            common.is_wide |= held(array.dtype) not in TYPES or array.dtype in HALVES
            if array.size >= 2**31:
                raise UnfitError("an array of more than 2 billion elements, on a GPU")
        self.common, self.times = common, times

    # ---- what calls need

    def kernel(self, kernel: KernelText | AssemblyText) -> str:
        """Return the namespace of the kernel of an operator."""
        self.spread(WARP * kernel.warps // _LESS)
        common = self.common
        if kernel.meets:
            common.of_block = max(common.of_block, WARP * kernel.warps_of_block)
        if kernel not in common.kernels and sum(each.shared for each in (*common.kernels, kernel)) > MOST_SHARED:
            raise UnfitError("kernels whose threads share more memory than a block has")
        return common.kernels.setdefault(kernel, f"kernel{len(common.kernels)}")

    def spread(self, size: int) -> None:
        """Note that so many threads have something to do."""
        self.common.widest = max(self.common.widest, size)

    def scratch(self, dtype: str, size: int) -> str:
        """Return memory of a call."""
        name = f"z{self.common.scratches}"
        self.common.scratches += 1
        self.common.memory.add(name, dtype, size)
        return name

    def copied(self, to: str, source: str, size: int) -> Phase:
        """Copy elements."""
        own = owned([source], [to]) if "+" not in source else owned(writes=[to]) | shared([source])
        return Phase(each(size, [f"{to}[i] = {source}[i];"]), own)

    def zeroed(self, arrays: Sequence[str], sizes: Sequence[int]) -> tuple[list[Phase], list[Phase]]:
        """Return what sets arrays to zero before a call, or after it for the next step."""
        return [self._zero(name, size) for name, size in zip(arrays, sizes, strict=True)], []

    def _zero(self, name: str, size: int) -> Phase:
        return Phase(each(size, [f"{name}[i] = 0;"]), owned(writes=[name]))

    # ---- the parts of a step

    def _beginning(self) -> list[Phase]:
        """Find the rows of a step."""
        lines, read, p = [], [], self.prefix
        for array in (array for array in self.plan.inputs if array.home == "row"):
            number = array.number
            if array.shape == ():
                read.append(f"{p}p{number}")
                lines.append(f"const {computed(array.dtype)} {p}c{number} = {p}p{number}[{p}t];")
            else:
                kind = STORED[array.dtype]
                lines.append(f"const {kind}* const {p}r{number} = {p}p{number} + {p}t * {array.size}u;")
        for i in self.plan.rows:
            array = self.plan.outs[i]
            lines.append(f"{STORED[array.dtype]}* const {p}y{i} = {p}o{i} + {p}t * {array.size}u;")
        return [Phase(lines, shared(read))]

    def _end(self) -> list[Phase]:
        """Store what is not stored yet, and let carried scalars take their new values, all at once."""
        plan, p = self.plan, self.prefix
        phases = [self.copied(self._result(i), self._flat(array), array.size) for i, array in plan.late]
        for i in plan.rows:
            if not plan.outs[i].shape:
                line = f"if (tid == 0) {self._result(i)}[0] = {self._scalar_text(plan.outs[i])};"
                phases.append(Phase([line], owned(writes=[self._result(i)])))
        scalars = [number for number in plan.carries if not plan.inputs[number].shape]
        new = [
            f"const {computed(plan.inputs[n].dtype)} {p}n{n} = {self._scalar_text(plan.outs[plan.carries[n]])};"
            for n in scalars
        ]
        return [*phases, Phase([*new, *(f"{p}c{n} = {p}n{n};" for n in scalars)])]

    def _argument(self, view: View, scalar: bool) -> str:
        """Return the text of a call's operand: a scalar, or where an array begins."""
        array = view.base
        assert isinstance(array, Array)
        if array.shape == ():
            return self._scalar_text(array) if scalar else self._boxed(array)
        flat = self._flat(array)
        return f"({flat} + {view.offset}u)" if view.offset else flat

    def _boxed(self, array: Array) -> str:
        """Return the array without axes that a scalar is in."""
        return f"{self.prefix}{'b' if array.home == 'made' else 'p'}{array.number}"

    # ---- nodes

    def _call(self, node: Node) -> list[Item]:
        call = node.call
        assert call is not None
        self.common.elements += self.times * (sum(view.size for view in node.ins) + call.work)
        operands = [self._argument(view, place in call.scalars) for place, view in enumerate(node.ins)]
        results = [self._flat(array) if array.shape else self._boxed(array) for array in node.outs]
        if isinstance(call, CallWithin):
            registers = {k: array for k, array in enumerate(node.outs[: call.results]) if array.shape == ()}
            results = [self._scalar_text(registers[k]) if k in registers else text for k, text in enumerate(results)]
            declared = [f"{computed(array.dtype)} {self._scalar_text(array)};" for array in registers.values()]
            boxed = (array for array in registers.values() if array in self._read_by_calls())
            boxes = [self._box(self._boxed(array), self._scalar_text(array)) for array in boxed]
            return [Phase(declared), *call.write(operands, results, self), *boxes]
        items = list[Item](call.write(operands, results, self))
        for array in (array for array in node.outs if array.shape == ()):
            line = f"const {computed(array.dtype)} {self._scalar_text(array)} = {self._boxed(array)}[0];"
            items.append(Phase([line], shared([self._boxed(array)])))
        return items

    def _read_by_calls(self) -> set[Array]:
        """Return the arrays without axes that calls read in memory."""
        found = set()
        for call, ins in ((node.call, node.ins) for node in self.plan.nodes() if node.call is not None):
            for base in (view.base for place, view in enumerate(ins) if place not in call.scalars):
                if isinstance(base, Array) and base.shape == ():
                    found.add(base)
        return found

    def _box(self, to: str, scalar: str) -> Phase:
        return Phase([f"if (tid == 0) {to}[0] = {scalar};"], owned(writes=[to]))

    def _scalars(self, nodes: Sequence[Node]) -> list[Phase]:
        outs = [array for node in nodes for array in node.outs if self._is_read_outside(array, nodes)]
        reads: _Reads = {}
        form = self._form(nodes, outs, (), reads)
        names = [self._scalar_text(array) for array in outs]
        lines = _called(form, outs, [text + index for text, index in reads], names)
        return [Phase(lines, shared(text for text, index in reads if index))]

    def _loop(self, nodes: Sequence[Node]) -> list[Phase]:
        """Write a loop over elements, which threads share."""
        stored = [array for node in nodes for array in node.outs if self.plan.places[array]]
        if not stored:
            return []
        shape, reads = nodes[0].shape, _Reads()
        size = math.prod(shape)
        self.spread(size)
        self.common.elements += self.times * size * len(nodes)
        form = self._form(nodes, stored, shape, reads)
        names = [f"x{k}" for k in range(len(stored))]
        in_memory = {key: f"v{k}" for k, key in enumerate(reads) if key[1] not in ("", KEPT)}
        first = {name: (computed(reads[key].dtype), "".join(key)) for key, name in in_memory.items()}
        passed = [f"{in_memory[key]}[j]" if key in in_memory else "".join(key) for key in reads]
        body = _called(form, stored, passed, names)
        written = []
        for name, array in zip(names, stored, strict=True):
            for text, index in (self._own(self._place(place)) for place in self.plan.places[array]):
                body.append(f"{text}{index} = {name};")
                written.append((text, index))
        own = [text for text, index in reads if index == OWN]
        others = [text for text, index in reads if index not in ("", OWN, KEPT)]
        accesses = owned(own, (text for text, index in written if index == OWN)) | shared(others)
        is_kept = any(index == KEPT for _, index in (*reads, *written))
        if first:
            return [Phase(each_read_first(size, first, body, kept=is_kept), accesses)]
        return [Phase((each_kept if is_kept else each)(size, body), accesses)]

    def _own(self, place: str) -> tuple[str, str]:
        """Return an array and an index: the element of a place that a loop over elements is at."""
        return place, OWN

    def _form(self, nodes: Sequence[Node], outs: Sequence[Array], shape: tuple[int, ...], reads: _Reads) -> str:
        """Write elementwise nodes as a form, and return its name; its inputs are `reads`."""

        def read(view: View) -> tuple[tuple[str, str], str]:
            assert isinstance(view.base, Array)
            if view.base.shape == ():
                key = self._scalar_text(view.base), ""
            elif shape and reads_own(view, shape):
                key = self._own(self._flat(view.base))
            else:
                key = self._flat(view.base), f"[{index_of(view)}]"
            return key, held(view.dtype)

        name = f"lanes{len(self.common.forms)}"
        self.common.forms.append(form_of_nodes(name, nodes, outs, reads, read))
        return name


_Reads = dict[tuple[str, ...], Name]  # inputs of a form, by the text of an array and an index; of a scalar without


def _called(form: str, outs: Sequence[Array], passed: Sequence[str], names: Sequence[str]) -> Texts:
    """Return lines that call a form, and name its results."""
    if len(outs) == 1:
        return [f"const {computed(outs[0].dtype)} {names[0]} = be_{form}({', '.join(passed)});"]
    declared = [f"{computed(array.dtype)} {name};" for name, array in zip(names, outs, strict=True)]
    return [*declared, f"be_{form}({', '.join([*passed, *names])});"] if outs else []
