# SPDX-License-Identifier: Apache-2.0
"""Run networks in a program of JAX: a handler of XLA, which runs the elements of a batch side by side in threads.

The first operand of a call has the address of a `JOB` for each element, the second the number of its first step.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...backends.numba.inner import inner
from ...backends.numba.memory import acquire, array_at, call, count_up, join_thread, put, start_thread, word
from ...ffi.frame import INTERNAL, METADATA_EXTENSION, OFFSETS, SIZES, api_version
from .tables import COPY, FLOATS, GROUP, JOB, POINTER, RECORD, SHOW, SUMS, ZEROS

__all__ = ["handler", "worker"]

_compile = inner(error_model="numpy", later=True)
_MAJOR, _MINOR = api_version()
_EXTENSIONS, _API = OFFSETS["XLA_FFI_CallFrame.extension_start"], OFFSETS["XLA_FFI_CallFrame.api"]
_KIND, _NEXT = OFFSETS["XLA_FFI_Extension_Base.type"], OFFSETS["XLA_FFI_Extension_Base.next"]
_METADATA = OFFSETS["XLA_FFI_Metadata_Extension.metadata"]
_VERSION = tuple(OFFSETS[f"XLA_FFI_Metadata.api_version.{part}_version"] for part in ("major", "minor"))
_TRAITS = OFFSETS["XLA_FFI_Metadata.traits"]
_ARGS, _N_ARGS = OFFSETS["XLA_FFI_CallFrame.args.args"], OFFSETS["XLA_FFI_CallFrame.args.size"]
_RETS, _N_RETS = OFFSETS["XLA_FFI_CallFrame.rets.rets"], OFFSETS["XLA_FFI_CallFrame.rets.size"]
_ATTRIBUTES, _DATA = OFFSETS["XLA_FFI_CallFrame.attrs.attrs"], OFFSETS["XLA_FFI_Buffer.data"]
_SIZE, _VALUES = OFFSETS["XLA_FFI_Array.size"], OFFSETS["XLA_FFI_Array.data"]
_CREATE, _ERROR_BYTES = OFFSETS["XLA_FFI_Api.XLA_FFI_Error_Create"], SIZES["XLA_FFI_Error_Create_Args"]
_COPY_BYTES, _SUMS_BYTES, _POINTER_BYTES = (8 * len(fields) for fields in (COPY, SUMS, POINTER))
_ZEROS_BYTES, _SHOW_BYTES, _FLOATS_BYTES = (8 * len(fields) for fields in (ZEROS, SHOW, FLOATS))
_GROUP_WORDS = len(GROUP)
_MESSAGE = np.frombuffer(b"simulate: memory is full: there is no room for the networks of this call\0", np.uint8)
_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)


@_compile
def at(address, offset):  # type: ignore[no-untyped-def]
    """Return the word at a byte offset from an address."""
    return word(address + offset, 0)


@_compile
def copied(target, source, nbytes):  # type: ignore[no-untyped-def]
    """Copy bytes; both addresses are those of arrays."""
    whole = nbytes // 4
    to, given = array_at(target, whole, np.uint32), array_at(source, whole, np.uint32)
    for k in range(whole):
        to[k] = given[k]
    ends, rest = array_at(target, nbytes, np.uint8), array_at(source, nbytes, np.uint8)
    for k in range(4 * whole, nbytes):
        ends[k] = rest[k]


@_compile
def flushed(address, count):  # type: ignore[no-untyped-def]
    """Replace denormals of float32 by zeros of their sign."""
    words = array_at(address, count, np.uint32)
    for k in range(count):
        if words[k] & _EXPONENT == np.uint32(0):
            words[k] &= _SIGN


@_compile
def copy_states(job, arena, buffers, out):  # type: ignore[no-untyped-def]
    """Copy states and parameters in, or states out."""
    for k in range(word(job, JOB.copied)):
        row = word(job, JOB.copies) + _COPY_BYTES * k
        if word(row, COPY.out) != out:
            continue
        outside, inside = word(buffers, word(row, COPY.buffer)), arena + word(row, COPY.at)
        nbytes = word(row, COPY.nbytes)
        if out:
            copied(outside, inside, nbytes)
        else:
            copied(inside, outside, nbytes)
            if word(row, COPY.flushed):
                flushed(inside, nbytes // 4)


@_compile
def copy_sums(job, arena, buffers, step, out):  # type: ignore[no-untyped-def]
    """Copy pending input from rows in order of arrival to the ring, or back."""
    for k in range(word(job, JOB.ringed)):
        row = word(job, JOB.rings) + _SUMS_BYTES * k
        if word(row, SUMS.out) != out:
            continue
        rows, neurons, low = word(row, SUMS.rows), word(row, SUMS.neurons), word(row, SUMS.low)
        outside, own = word(buffers, word(row, SUMS.buffer)), word(row, SUMS.high) - low
        for ahead in range(rows):
            slot = (step + ahead) & word(row, SUMS.mask)
            sums = array_at(arena + word(row, SUMS.ring) + 4 * slot * word(row, SUMS.row), own, np.int32)
            given = array_at(outside + 4 * (ahead * neurons + low), own, np.int32)
            for neuron in range(own):
                if out:
                    given[neuron] = sums[neuron]
                else:
                    sums[neuron] = given[neuron]


@_compile
def begun(job, arena, buffers):  # type: ignore[no-untyped-def]
    """Make the memory of a run out of its image, and of operands."""
    words, image = word(job, JOB.words), word(job, JOB.image)
    for k in range(words):
        put(arena, k, word(image, k))
    for k in range(word(job, JOB.moves)):
        place = word(word(job, JOB.moved), k)
        put(arena, place, word(arena, place) + arena)
    for k in range(words, word(job, JOB.cleared) // 8):
        put(arena, k, 0)
    step = np.int64(array_at(word(buffers, 1), 1, np.uint32)[0])
    put(arena, word(job, JOB.clock), step)
    for k in range(word(job, JOB.given)):
        row = word(job, JOB.pointers) + _POINTER_BYTES * k
        put(arena, word(row, POINTER.place), word(buffers, word(row, POINTER.buffer)) + word(row, POINTER.shift))
    keys = array_at(word(buffers, 2), 2 * word(job, JOB.populations), np.uint32)
    for k in range(word(job, JOB.populations)):
        place = word(word(job, JOB.keys), k)
        for part in range(word(word(job, JOB.keys), word(job, JOB.populations) + k)):
            put(arena, word(word(job, JOB.keys), place + part), np.int64(keys[2 * k]))
            put(arena, word(word(job, JOB.keys), place + part) + 1, np.int64(keys[2 * k + 1]))
    for k in range(word(job, JOB.zeroed)):
        row = word(job, JOB.zeros) + _ZEROS_BYTES * k
        nbytes = word(row, ZEROS.nbytes)
        found = array_at(word(buffers, word(row, ZEROS.buffer)), nbytes, np.uint8)
        for byte in range(nbytes):
            found[byte] = np.uint8(0)
    copy_states(job, arena, buffers, 0)
    copy_sums(job, arena, buffers, step, 0)
    return step


@_compile
def show_spikes(job, arena, buffers, turn, came):  # type: ignore[no-untyped-def]
    """Write 1 for each spike of some turns, and forget them."""
    for k in range(word(job, JOB.shows)):
        row = word(job, JOB.shown) + _SHOW_BYTES * k
        record, neurons = arena + word(row, SHOW.record), word(row, SHOW.neurons)
        rates = array_at(arena + word(row, SHOW.rates), came, np.int32)
        spikes = array_at(word(record, RECORD.spikes), word(record, RECORD.used), np.int32)
        result, place = word(buffers, word(row, SHOW.buffer)), 0
        for t in range(turn, came):
            for _ in range(rates[t]):
                at_ = t * neurons + np.int64(spikes[place])
                place += 1
                if word(row, SHOW.itemsize) == 8:
                    array_at(result + 8 * at_, 1, np.float64)[0] = 1.0
                else:
                    array_at(result + 4 * at_, 1, np.float32)[0] = np.float32(1)
        put(record, RECORD.used, 0)


@_compile
def as_floats(job, arena, buffers):  # type: ignore[no-untyped-def]
    """Write counts and rates as floats."""
    for k in range(word(job, JOB.floated)):
        row = word(job, JOB.floats) + _FLOATS_BYTES * k
        size, result = word(row, FLOATS.size), word(buffers, word(row, FLOATS.buffer))
        for place in range(size):
            total = np.int64(0)
            for part in range(word(row, FLOATS.parts)):
                total += array_at(arena + word(row, FLOATS.at) + 4 * (part * size + place), 1, np.int32)[0]
            if word(row, FLOATS.itemsize) == 8:
                array_at(result + 8 * place, 1, np.float64)[0] = np.float64(total)
            else:
                array_at(result + 4 * place, 1, np.float32)[0] = np.float32(total)


@_compile
def run_element(job, arena, buffers):  # type: ignore[no-untyped-def]
    """Run one network from its operands to its results."""
    step, steps, turn = begun(job, arena, buffers), word(job, JOB.steps), 0
    while turn < steps:
        came = call(word(job, JOB.drive), arena + word(job, JOB.alone), turn, steps)
        show_spikes(job, arena, buffers, turn, came)
        turn = came
    step += steps
    for ahead in range(word(job, JOB.ahead)):  # what spikes send that wait in lists
        for k in range(word(job, JOB.bundles)):
            bundled = word(job, JOB.bundled) + 16 * k
            call(word(bundled, 0), arena + word(bundled, 1), step + ahead, step)
    for k in range(word(job, JOB.catches)):  # events that wait for spikes of sources
        caught = word(job, JOB.caught) + 16 * k
        call(word(caught, 0), arena + word(caught, 1), step, -1)
    copy_states(job, arena, buffers, 1)
    copy_sums(job, arena, buffers, step, 1)
    as_floats(job, arena, buffers)


@_compile
def find_buffers(group, element, buffers):  # type: ignore[no-untyped-def]
    """Write where the operands and results of an element begin, of whose batch `be.batch` tells the levels."""
    frame, count, inputs = word(group, GROUP.frame), word(group, GROUP.buffers), word(group, GROUP.operands)
    for k in range(count):
        found = word(at(frame, _ARGS), k) if k < inputs else word(at(frame, _RETS), k - inputs)
        address, rest = at(found, _DATA), element
        for level in range(word(group, GROUP.levels)):
            row = word(group, GROUP.batch) + 8 * (1 + level * (1 + count))
            address += rest % word(row, 0) * word(row, 1 + k)
            rest //= word(row, 0)
        put(buffers, k, address)


@numba.njit(error_model="numpy", nogil=True)
def worker(group: Any) -> Any:
    """Run elements of a call until none is left."""
    count = word(group, GROUP.buffers)
    room = np.empty(count + 8, np.int64)
    arena = np.empty(8, np.int64)
    while True:
        element = count_up(group + 8 * GROUP.next)
        if element >= word(group, GROUP.total):
            return 0
        buffers = np.int64(room.ctypes.data)
        find_buffers(group, element, buffers)
        halves = array_at(word(buffers, 0), 2, np.uint32)
        job = np.int64(halves[0]) | np.int64(halves[1]) << 32
        words = word(job, JOB.bytes) // 8 + 8
        if arena.size < words:
            arena = np.empty(words, np.int64)
        run_element(job, (np.int64(arena.ctypes.data) + 63) & ~63, buffers)
        count_up(group + 8 * GROUP.done)


@_compile
def answered(frame):  # type: ignore[no-untyped-def]
    """Say whether XLA asks for the version of its interface, and answer."""
    extension = at(frame, _EXTENSIONS)
    while extension != 0:
        if array_at(extension + _KIND, 1, np.int32)[0] == METADATA_EXTENSION:
            metadata = at(extension, _METADATA)
            array_at(metadata + _VERSION[0], 1, np.int32)[0] = _MAJOR
            array_at(metadata + _VERSION[1], 1, np.int32)[0] = _MINOR
            array_at(metadata + _TRAITS, 1, np.int32)[0] = 0
            return True
        extension = at(extension, _NEXT)
    return False


@_compile
def failed(frame):  # type: ignore[no-untyped-def]
    """Return an error of XLA: there was no memory."""
    message, given = np.empty(_MESSAGE.size, np.uint8), np.zeros(4, np.int64)
    for k in range(_MESSAGE.size):
        message[k] = _MESSAGE[k]
    given[0], given[2], given[3] = _ERROR_BYTES, message.ctypes.data, INTERNAL
    error = call(at(at(frame, _API), _CREATE), np.int64(given.ctypes.data), 0, 0)
    return error if message.size + given.size > 0 else 0  # both arrays live until here


@numba.njit(error_model="numpy", nogil=True)
def handler(frame: Any) -> Any:
    """Run the elements of a call of XLA; return 0, or its error."""
    if answered(frame):
        return 0
    group, batch = np.zeros(_GROUP_WORDS + 8, np.int64), at(at(frame, _ATTRIBUTES), 0)
    table = np.int64(group.ctypes.data)
    put(table, GROUP.frame, frame)
    put(table, GROUP.operands, at(frame, _N_ARGS))
    put(table, GROUP.buffers, at(frame, _N_ARGS) + at(frame, _N_RETS))
    put(table, GROUP.total, 1)
    if at(batch, _SIZE) != 0:
        put(table, GROUP.batch, at(batch, _VALUES))
        put(table, GROUP.levels, word(at(batch, _VALUES), 0))
        for level in range(word(table, GROUP.levels)):
            size = word(word(table, GROUP.batch), 1 + level * (1 + word(table, GROUP.buffers)))
            put(table, GROUP.total, word(table, GROUP.total) * size)
    total = word(table, GROUP.total)
    if total == 0:
        return 0
    first = array_at(at(word(at(frame, _ARGS), 0), _DATA), 2, np.uint32)
    job = np.int64(first[0]) | np.int64(first[1]) << 32
    threads = np.zeros(max(1, min(total, word(job, JOB.threads))), np.int64)
    begun_threads = 1
    while begun_threads < threads.size:
        handle = np.int64(threads.ctypes.data) + 8 * begun_threads
        if start_thread(handle, word(job, JOB.worker), table) != 0:
            break
        begun_threads += 1
    call(word(job, JOB.worker), table, 0, 0)
    for k in range(1, begun_threads):
        join_thread(threads[k])
    done = acquire(table + 8 * GROUP.done)
    return 0 if done == total and group.size + threads.size > 0 else failed(frame)  # both arrays live until here
