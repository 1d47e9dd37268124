# SPDX-License-Identifier: Apache-2.0
"""A kernel in PTX within the kernel of a loop: it becomes inline assembly, to which threads and addresses are given."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...ffi.launch import Launch
from ..values import Texts, UnfitError
from .blocks import WARP, Blocks

__all__ = ["AssemblyText", "Ptx", "read_ptx"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REGISTERS = re.compile(r"\.reg\s+\.([a-z]+)(\d*)\s+([^;]+);")
_LOAD = re.compile(r"\bld\.param\.([a-z])(\d+)\s+%([\w$]+)\s*,\s*\[\s*([\w$]+)\s*(?:\+\s*(\d+)\s*)?\]\s*;")
_WORD = re.compile(r"%([A-Za-z_][\w$]*(?:\.[xyz])?)")
_THREADS = re.compile(r"(n?tid|n?ctaid)\.([xyz])")
_HARMLESS = re.compile(r"laneid|lanemask_\w+|clock\w*|globaltimer\w*")  # as those of the loop
_VARIABLE = re.compile(
    r"\.(shared|global|const)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?(?:\s*=\s*([^;]*))?;"
)
_BYTES = re.compile(r"\{([\d,\s]+)\}")
_MEETING = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync\s+0\s*;")
_END = re.compile(r"\b(?:ret|exit)(?:\.uni)?\s*;")
_READ_ONLY = re.compile(r"\bld\.global((?:\.\w+(?:::\w+)*)*?)\.nc\b")
_DROPPED = re.compile(r"^\s*\.(?:loc\b[^\n]*|pragma\b[^;]*;)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*(\.[a-z_]+)", re.MULTILINE)
_MOST_ALIGNED = 16


@dataclass(frozen=True)
class Ptx:
    """A kernel in PTX: its module without comments, the names of its parameters, and its body."""

    module: str
    parameters: tuple[str, ...]
    body: str


@functools.lru_cache(maxsize=64)
def read_ptx(binary: bytes, entry: str) -> Ptx:
    """Find a kernel in its module."""
    module = _COMMENT.sub(" ", binary.decode().rstrip("\0"))
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*(?:\(([^)]*)\))?[^{{]*\{{", module)
    assert head is not None, "a kernel is in its own code"
    end, depth = head.end(), 1
    while depth:
        depth += {"{": 1, "}": -1}.get(module[end], 0)
        end += 1
    declared = (text.split("[")[0].split() for text in (head[1] or "").split(",") if text.strip())
    return Ptx(module, tuple(words[-1] for words in declared), module[head.end() : end - 1])


@dataclass(frozen=True, kw_only=True)
class AssemblyText(Blocks):
    """A launch of a kernel in PTX as a function of addresses, in the order of its slots."""

    launch: Launch
    title: str

    def text(self, name: str) -> str:
        """Return it as a namespace with the function `run`."""
        body = _Body(self)
        lines = body.lines()
        given = [f'"{kind}"({text})' for kind, text in body.operands]
        assembly = [f'"{line.strip()}\\n\\t"' for line in lines if line.strip()]
        addresses = ", ".join(f"Address a{k}" for k in range(len(self.launch.slots)))
        function = [
            f"__device__ __forceinline__ void run({addresses}) {{",
            *(f"    {line}" for line in body.within),
            "    asm volatile(",
            *(f"        {line}" for line in assembly),
            f'        :: {", ".join(given)} : "memory");',
            "}",
        ]
        return "\n".join([f"namespace {name} {{", *body.before, *function, "}", ""])


class _Body:
    """The body of a kernel while it is written: what it takes, and what is declared before it and within."""

    def __init__(self, blocks: AssemblyText):
        launch, ptx = blocks.launch, read_ptx(blocks.launch.binary, blocks.launch.entry)
        self._blocks, self._launch, self._ptx, self._title = blocks, launch, ptx, blocks.title
        self.operands: list[tuple[str, str]] = []  # constraints of the assembly, and expressions
        self.before: Texts = []
        self.within: Texts = []
        self._start: Texts = []  # registers that are given
        self._given: dict[str, str] = {}  # their names
        self._bits = dict(_registers(ptx.body))
        if len(ptx.parameters) != len(launch.parameters):
            raise self._unfit("whose parameters are not those of its PTX")

    def _unfit(self, why: str) -> UnfitError:
        return UnfitError(f"{self._title}, {why}")

    def lines(self) -> Texts:
        """Return the lines of the assembly."""
        body = _DROPPED.sub("", self._ptx.body)
        for directive in _DIRECTIVE.findall(body):
            if directive not in (".reg", ".local"):
                raise self._unfit(f"whose PTX has the directive {directive}")
        body = _WORD.sub(self._word, _LOAD.sub(self._load, body))
        if odd := [name for name in self._ptx.parameters if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", body)]:
            raise self._unfit(f"whose PTX reads its parameter {odd[0]} in parts")
        body = self._with_variables(body)
        # Other threads write in the same kernel what this one reads: no memory is read-only.
        body = _READ_ONLY.sub(r"ld.global\1", body)
        body = _MEETING.sub(f"barrier.sync 1, {WARP * self._blocks.warps_of_block};", body)
        body = _END.sub("bra be_end;", body).replace("$", "be_")
        if '"' in body or "\\" in body:
            raise self._unfit("whose PTX has a string")
        return ["{", *self._start, *body.splitlines(), "be_end:", "}"]

    def _take(self, name: str, bits: int, value: str, operand: str = "", space: str = "") -> str:
        """Return the register with what is given: a number, or an operand of the assembly."""
        if name not in self._given:
            self._given[name] = register = f"be_given_{name}"
            if operand:
                value = f"%{len(self.operands)}"
                self.operands.append(("l" if bits == 64 else "r", operand))
            move = f"cvta.to.{space}.u64" if space else f"mov.b{bits}"
            self._start += [f".reg .b{bits} {register};", f"{move} {register}, {value};"]
        return self._given[name]

    def _load(self, match: re.Match[str]) -> str:
        """Return a load of a parameter as a move of its value, which is known, or of an address."""
        kind, size, to, name, first = match[1], int(match[2]) // 8, match[3], match[4], int(match[5] or 0)
        bits = self._size(to)
        if name not in self._ptx.parameters or not bits:
            raise self._unfit(f"whose PTX reads {name}, which is no parameter")
        parameter = self._ptx.parameters.index(name)
        for number, slot in enumerate(self._launch.slots):
            if slot.parameter == parameter and first < slot.byte + 8 and slot.byte < first + size:
                if (first, size, bits) != (slot.byte, 8, 64):
                    raise self._unfit(f"whose PTX reads the address {name} in parts")
                address = f"(const char*)a{number}.at + {slot.shift}" if slot.shift else f"a{number}.at"
                return f"mov.b64 %{to}, {self._take(f'a{number}', 64, '', address)};"
        content = self._launch.parameters[parameter][first : first + size]
        if len(content) != size or bits < 8 * size:
            raise self._unfit(f"whose PTX reads {name} beyond its end")
        value = int.from_bytes(content, "little", signed=kind == "s") % 2**bits
        return f"mov.b{bits} %{to}, {value:#x};"

    def _size(self, register: str) -> int:
        """Return the bits of a register, or 0 if there is none of that name."""
        return self._bits.get(register) or self._bits.get(register.rstrip("0123456789"), 0)

    def _word(self, match: re.Match[str]) -> str:
        """Return a register by a name that is its own, or what pretended threads know."""
        word = match[1]
        if self._size(word):
            return f"be_{word}"
        if threads := _THREADS.fullmatch(word):
            name, axis = threads[1], "xyz".index(threads[2])
            if name.startswith("n"):
                extent = (self._blocks.block if name == "ntid" else self._blocks.grid)[axis]
                return self._take(f"{name}_{threads[2]}", 32, str(extent))
            place = self._blocks.thread if name == "tid" else self._blocks.place
            return self._take(f"{name}_{threads[2]}", 32, "", f"{place}.{threads[2]}")
        if _HARMLESS.fullmatch(word):
            return f"%%{word}"
        raise self._unfit(f"which reads %{word}")

    def _with_variables(self, body: str) -> str:
        """Return the body with addresses of the variables that it names."""
        for k, match in enumerate(_VARIABLE.finditer(self._ptx.module.replace(self._ptx.body, " "))):
            space, alignment, kind, name, size, content = match.groups()
            pattern = rf"(?<![\w$]){re.escape(name)}(?![\w$])"
            if not re.search(pattern, body):
                continue
            known = _BYTES.fullmatch((content or "").strip())
            if kind != "b8" or int(alignment or 1) > _MOST_ALIGNED or (space != "shared" and known is None):
                raise self._unfit(f"which uses the variable {name} of its module")
            own = f"{'shared' if space == 'shared' else 'table'}{k}"
            if space == "shared":
                self.within.append(f"__shared__ Sixteen {own}[{-(-int(size or 1) // _MOST_ALIGNED)}];")
            else:
                assert known is not None
                self.before.append(f"alignas({_MOST_ALIGNED}) __device__ const unsigned char {own}[] = {{{known[1]}}};")
            register = self._take(own, 64, "", own, "shared" if space == "shared" else "global")
            body = re.sub(pattern, register, body)
        return re.sub(r"\.const\b", ".global", body)  # constants of a module are memory of the loop's


def _registers(body: str) -> Iterator[tuple[str, int]]:
    """Yield names of registers, or what the names of some begin with, and their bits."""
    for kind, bits, names in _REGISTERS.findall(body):
        for name in names.split(","):
            yield name.strip().partition("<")[0].lstrip("%"), 1 if kind == "pred" else int(bits)
