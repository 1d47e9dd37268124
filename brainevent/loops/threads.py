# SPDX-License-Identifier: Apache-2.0
"""Which loops over elements of a loop on the CPU are shared by threads, and the text of that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..backends.numba.workers import available_threads, operands_of
from .copies import Helper, indented
from .plan import Plan
from .values import HALVES, Array, Node, Texts, Tools

__all__ = ["LEAST_SHARED", "Shared", "is_shared", "threads_for"]

LEAST_SHARED = 10_000  # elements of a loop: with fewer, threads wait for each other longer than they work
_OF_THREAD = 5_000  # at least


def is_shared(loop: Sequence[Node]) -> bool:
    """Say whether threads share a loop over elements."""
    dtypes = {view.dtype for node in loop for view in node.ins} | {array.dtype for node in loop for array in node.outs}
    return math.prod(loop[0].shape) >= LEAST_SHARED and dtypes.isdisjoint(HALVES)


def threads_for(plan: Plan) -> int:
    """Return the number of threads of a loop: those that Numba has when it is compiled, or fewer if it is small."""
    loops = (loop for stage in (*plan.head, *plan.step) for loop in stage.loops)
    most = max((math.prod(loop[0].shape) for loop in loops if is_shared(loop)), default=0)
    return max(1, min(available_threads(), most // _OF_THREAD))


class Shared:
    """The loops that some `threads` share: for each, a function of their table and of the number of a chunk."""

    def __init__(self, threads: int):
        self.threads, self.parts, self._most = threads, list[str](), 0

    @property
    def words(self) -> int:
        """The number of words of the table."""
        return operands_of(self.threads) + self._most

    def called(
        self, tools: Tools, loop: str, arrays: Mapping[str, Array], scalars: Mapping[str, str], size: int
    ) -> Texts:
        """Return lines in which all threads call a loop over `size` elements or rows of arrays; scalars by dtype.

        The function takes arrays and scalars, and then where a chunk begins and how many elements it has.
        """
        first = operands_of(self.threads)
        self._most = max(self._most, len(arrays) + len(scalars))
        lines, body, names = [], list[str](), list[str]()
        for place, (text, array) in enumerate(arrays.items(), first):
            lines.append(f"put(table, {place}, address({text}))")
            body.append(f"a{place} = array_at(word(table, {place}), {array.size}, np.{_name(array.dtype)})")
            names.append(f"a{place}")
        for place, (text, dtype) in enumerate(scalars.items(), first + len(arrays)):
            slot = f"array_at(table + {8 * place}, 1, np.{_name(dtype)})[0]"
            lines.append(f"{slot} = {text}")
            names.append(slot)
        body += [
            f"begin, end = range_of(table, chunk, {size})",
            f"{loop}({', '.join([*names, 'begin', 'end - begin'])})",
            "chunk_done(table)",
        ]
        part = tools.function("chunk", Helper("table, chunk", tuple(body), apart=False))
        if part not in self.parts:
            self.parts.append(part)
        own = [
            "chunk = first_chunk(table)",
            "while chunk >= 0:",
            f"    {part}(table, chunk)",
            "    chunk = first_chunk(table)",
        ]
        return [*lines, f"share_work(table, {self.parts.index(part)})", *own, "await_chunks(table)"]

    def functions(self, steps: Sequence[str], arguments: str) -> Texts:
        """Return the text of what a thread runs, of all steps, and of the loop, which has threads while it runs."""
        pairs = ((f"if work == {k}:", f"    {part}(table, chunk)") for k, part in enumerate(self.parts))
        work = ["chunk = last_chunk(line)", "work = work_of(table)", "if work < 0:", "    return 0"]
        work += [line for pair in pairs for line in pair]
        body = ["flush_floats()", "table = word(line, 0)", "while True:", *indented(work)]
        loop = [
            f"table = stack_memory({self.words})",
            f"begin_threads(work_of_thread, table, {self.threads})",
            f"run_then(fused_steps, ({arguments},), end_threads, table)",
        ]
        return [
            *("def work_of_thread(line):", *indented(body)),
            *(f"def fused_steps(table, {arguments}):", *indented(steps)),
            *(f"def fused_loop({arguments}):", *indented(loop)),
        ]


def _name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype
