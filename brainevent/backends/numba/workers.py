# SPDX-License-Identifier: Apache-2.0
"""Threads that share the work of a native function: they begin with it, wait for work, and end with it.

Work is cut into chunks, which threads take until none is left: one that the system has stopped takes none, and nobody
waits for it. The first thread takes chunks from the front, all others from the back, so that a thread mostly has the
same ones. All of this is in a table of words, in lines of a cache: line 0 has the turn and the chunks that are taken,
line 1 the chunks that are done, line 2 the number of the work (-1: end) and those of threads and of chunks. Each
further thread has a line with the address of the table and the name of the thread. What the work needs follows, from
`operands_of` on.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ... import config
from .inner import inner
from .internals import cgutils, target_context
from .memory import acquire, add_to, join_thread, put, release, start_thread, word, yield_thread

__all__ = [
    "available_threads", "await_chunks", "begin_threads", "chunk_done", "end_threads", "first_chunk", "last_chunk",
    "operands_of", "range_of", "run_then", "share_work", "work_of",
]  # fmt: skip

_LINE = 64  # bytes
_TAKEN, _DONE, _WORK, _THREADS, _CHUNKS, _LINES = 0, 8, 16, 17, 18, 3
_TABLE, _NAME = range(2)
_EACH = 4  # chunks for each thread
_BACK, _TURN = 2**16, 2**32  # units of chunks that are taken from the back, and of turns, in the first word
_SPINS = 1000  # looks at a word before another thread of the machine may run
_UNIT = 64  # elements: no two threads write to the same line of a cache

_I64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_THREAD = ir.FunctionType(_BYTES, [_BYTES])

_compile = inner(error_model="numpy", later=True)


def available_threads() -> int:
    """Return how many threads Numba may use, and so may others; Numba's own need not begin for this."""
    return config.get_numba_num_threads() or int(numba.config.NUMBA_NUM_THREADS)


def operands_of(threads: int) -> int:
    """Return the first word of the table that is for operands."""
    return (_LINES + threads) * _LINE // 8


@intrinsic
def _address_of_thread(typing_context: Any, function: Any) -> Any:
    """Return the address of what a new thread runs: a function of one word."""
    if not isinstance(function, types.Dispatcher):
        return None
    of_word = (types.int64,)
    function.get_call_type(typing_context, of_word, {})
    compiled = function.dispatcher.overloads[of_word]

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        context.add_linking_libs([compiled.library])
        thread = ir.Function(builder.module, _THREAD, f"{builder.function.name}_thread")
        thread.linkage = "internal"
        inside = ir.IRBuilder(thread.append_basic_block("entry"))
        given = [inside.ptrtoint(thread.args[0], _I64)]
        target_context.call_internal_no_propagate(inside, compiled.fndesc, compiled.signature, given)
        inside.ret(ir.Constant(_BYTES, None))
        return builder.ptrtoint(thread, _I64)

    return types.int64(function), codegen


@intrinsic
def run_then(typing_context: Any, function: Any, arguments: Any, after: Any, table: Any) -> Any:
    """Call `function(table, *arguments)`, and then `after(table)` also if it failed."""
    if not (isinstance(function, types.Dispatcher) and isinstance(arguments, types.BaseTuple)):
        return None
    given, found = (table, *arguments), []
    for dispatcher, kinds in ((function, given), (after, (table,))):
        dispatcher.get_call_type(typing_context, kinds, {})
        found.append(dispatcher.dispatcher.overloads[kinds])

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        operands = [args[3], *cgutils.unpack_tuple(builder, args[1], len(arguments))]
        context.add_linking_libs([each.library for each in found])
        first, then = found
        status, _ = context.call_internal_no_propagate(builder, first.fndesc, first.signature, operands)
        context.call_internal_no_propagate(builder, then.fndesc, then.signature, [args[3]])
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(function, arguments, after, table), codegen


@_compile
def begin_threads(worker, table, threads):  # type: ignore[no-untyped-def]
    """Begin a number of threads, this one among them; there are fewer if the system has no more."""
    put(table, _CHUNKS, _EACH * threads)
    put(table, _TAKEN, _EACH * threads)
    begun = 1
    while begun < threads:
        line = table + _LINE * (_LINES + begun)
        put(line, _TABLE, table)
        if start_thread(line + 8 * _NAME, _address_of_thread(worker), line) != 0:
            break
        begun += 1
    put(table, _THREADS, begun)


@_compile
def end_threads(table):  # type: ignore[no-untyped-def]
    """Let all other threads end."""
    share_work(table, -1)
    for k in range(1, word(table, _THREADS)):
        join_thread(word(table + _LINE * (_LINES + k), _NAME))


@_compile
def share_work(table, work):  # type: ignore[no-untyped-def]
    """Begin a turn, in which threads take the chunks of some work."""
    put(table, _WORK, work)
    put(table, _DONE, 0)
    release(table + 8 * _TAKEN, (word(table, _TAKEN) // _TURN + 1) * _TURN)


@_compile
def await_chunks(table):  # type: ignore[no-untyped-def]
    """Wait until all chunks are done; the first thread has found that none is left."""
    looks = 0
    while acquire(table + 8 * _DONE) < word(table, _CHUNKS):
        looks += 1
        if looks > _SPINS:
            yield_thread()


@_compile
def _left(table, taken):  # type: ignore[no-untyped-def]
    """Return how many chunks nobody has taken."""
    return word(table, _CHUNKS) - taken % _BACK - taken // _BACK % _BACK


@_compile
def first_chunk(table):  # type: ignore[no-untyped-def]
    """Take a chunk from the front; return its number, or -1 if none is left."""
    taken = add_to(table + 8 * _TAKEN, 1)
    return taken % _BACK if _left(table, taken) > 0 else -1


@_compile
def last_chunk(line):  # type: ignore[no-untyped-def]
    """Wait for work, and take a chunk from the back; return its number."""
    table = word(line, _TABLE)
    looks = 0
    while True:
        if _left(table, acquire(table + 8 * _TAKEN)) > 0:
            taken = add_to(table + 8 * _TAKEN, _BACK)
            if _left(table, taken) > 0:
                return word(table, _CHUNKS) - 1 - taken // _BACK % _BACK
        looks += 1
        if looks > _SPINS:
            yield_thread()


@_compile
def work_of(table):  # type: ignore[no-untyped-def]
    """Return the number of the work, of which this thread has taken a chunk."""
    return word(table, _WORK)


@_compile
def chunk_done(table):  # type: ignore[no-untyped-def]
    """Count a chunk as done."""
    add_to(table + 8 * _DONE, 1)


@_compile
def range_of(table, chunk, size):  # type: ignore[no-untyped-def]
    """Return where a chunk of a number of elements begins and ends."""
    chunks = word(table, _CHUNKS)
    unit = _UNIT if size >= _UNIT * chunks else 1
    end = size if chunk == chunks - 1 else size * (chunk + 1) // chunks // unit * unit
    return size * chunk // chunks // unit * unit, end
