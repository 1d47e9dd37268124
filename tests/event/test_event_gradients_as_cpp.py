# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of gradients by events, without a GPU: lane by lane as C++, and compiled by NVRTC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from product_promises import ninety, planned
from warps_on_cpu import built, launched

import brainevent as be
from brainevent.event import on_gpu
from brainevent.event.on_gpu import deliveries, each
from brainevent.event.table import TABLE

__all__ = ["ninety"]

both_sides = pytest.mark.parametrize("by_rows", [True, False], ids=["events of rows", "events of columns"])
BAD = [np.nan, np.inf]
# Of a block of one warp, what a GPU counts and where it waits; `gridDim.y` blocks share rows, one after the other.
BLOCKS = """
struct Sharers { unsigned x, y; };
static Sharers gridDim = {0, 2};
static int __popc(unsigned x) { return __builtin_popcount(x); }
"""
TYPES = "typedef float W, A;\ntypedef int I, J, P, Q, R, D;\n"


def text(flags, types, *names):
    defined = "".join(f"#define {name} {int(value)}\n" for name, value in flags.items())
    return f"{defined}{TYPES}{types}{on_gpu.source(*names)}"


def of_coordinates(event, silent, by_rows):
    """Return `per_coordinate` as C++."""
    names = "ONE INDEXED WITHIN CONNECTIONS NUMBER COLUMNS"
    flags = {**dict.fromkeys(names.split(), 0), "PARTS": 1, "EVENTS": event, "SILENT": silent, "BY_ROWS": by_rows}
    sides = ("bool X" if by_rows else "bool Y", "float Y" if by_rows else "float X") if event else ("float X, Y",)
    run = """
extern "C" int called(I* row, J* col, X* of_rows, Y* of_columns, A* out, long long rows, long long columns,
                      long long stored, long long width) {
  return run((stored + 31) / 32,
             [=] { per_coordinate(row, col, of_rows, of_columns, out, rows, columns, stored, width); });
}
"""
    typedefs = "".join(f"typedef {side};\n" for side in sides)
    return built(text(flags, typedefs, "rows.cu", "each.cu") + run).called


@both_sides
@pytest.mark.parametrize("kind", ["event", "silent", None])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("bad", BAD)
def test_elements_in_coordinates(by_rows, kind, width, bad):
    random = np.random.default_rng(0)
    row, col = random.integers(-1, 12, 100, np.int32), random.integers(-1, 9, 100, np.int32)
    sizes = (11, 8) if by_rows else (8, 11)
    x = np.where(random.random((sizes[0], width)) < 0.4, 1.5, 0).astype(np.float32)
    values = random.normal(size=(sizes[1], width)).astype(np.float32)
    if kind:
        values[::3] = bad
    sides = (x, values) if by_rows else (values, x)
    given = tuple((side != 0) if kind == "event" and side is x else side for side in sides)
    found = np.full(100, np.nan, np.float32)
    launched(of_coordinates(kind == "event", kind == "silent", by_rows), row, col, *given, found, 11, 8, 100, width)
    law = {"event": "binary_", "silent": "weighted_", None: ""}[kind]
    operator = next(operator for operator in TABLE.values() if operator.name == f"{law}coo_per_element")
    outs = [jax.ShapeDtypeStruct((100,), jnp.float32)]
    (wanted,) = operator(row, col, *given, transpose=by_rows, outs=outs, backend="reference")
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert (found[(row < 0) | (row > 10) | (col < 0) | (col > 7)] == 0).all()
    assert kind is None or (found == 0).sum() > 20


def collecting(flags):
    """Return `deliver`, as it collects, as C++."""
    names = "ONE_DELAY LAID WEIGHTED INDEXED NUMBER"
    flags = {
        **dict.fromkeys(names.split(), 0),
        "THREADS": 32,
        "ONE": 1,
        "CONNECTIONS": 0,
        "COLLECT": 1,
        "WITHIN": 0,
        **flags,
    }
    run = """
extern "C" int called(A* ring, A* weights, I* indices, P* indptr, Q* perm, D* delays, bool* events, A* x, int* t,
                      A* out, long long rows, long long number, long long stored, long long held, long long slots,
                      long long width) {
  gridDim.x = (rows + 31) / 32;
  int failed = 0;
  for (sharer = 0; sharer < 2; sharer++)
    failed |= run(gridDim.x, [=] { deliver(ring, weights, indices, indptr, perm, delays, events, x, t, out, rows,
                                           number, stored, held, slots, width); });
  return failed;
}
"""
    kernel = text(flags, "", "rows.cu", "deliver.cu").replace("blockIdx.y", "sharer")
    return built(f"{BLOCKS}static unsigned sharer;\n{kernel}{run}").called


@pytest.mark.parametrize("kind", ["in order", "by places", "rows of equal length", "sorted by delay"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bad", BAD)
def test_elements_that_collect_from_a_ring(kind, weighted, bad):
    random = np.random.default_rng(1)
    rows, number, slots, width = 45, 9, 5, 13
    indices = random.integers(-1, width + 1, (rows, number), np.int32)
    indptr = np.arange(rows + 1, dtype=np.int32) * number
    delays = random.integers(1, slots, (rows, number)).astype(np.int32)
    perm = random.permutation(rows * number).astype(np.int32)
    x = np.where(random.random(rows) < 0.3, 1.5, 0).astype(np.float32)
    ring = random.normal(size=(slots, width)).astype(np.float32)
    given_delays = delays.reshape(-1)
    if kind == "sorted by delay":
        delays.sort(axis=1)
        given_delays = indptr[:-1, None] + (delays[:, :, None] <= np.arange(slots)).sum(1)
        given_delays = given_delays.astype(np.int32)
    each_delay = delays.reshape(-1)
    if kind == "by places":
        each_delay = delays.reshape(-1)[perm]
    reached = np.zeros((slots, width + 2), bool)
    active = np.repeat(x != 0, number)
    slot, column = (7 + each_delay) % slots, indices.reshape(-1)
    reached[slot[active], column[active] + 1] = True
    ring = np.where(reached[:, 1:-1], ring, np.float32(bad))
    flags = {"WEIGHTED": weighted, "INDEXED": kind == "by places", "NUMBER": kind == "rows of equal length"}
    function, out = collecting({**flags, "LAID": kind == "sorted by delay"}), np.zeros(rows * number, np.float32)
    arrays = (indices, indptr, perm, given_delays, x != 0, x, np.array([7], np.int32))
    launched(function, ring, np.zeros(1, np.float32), *arrays, out, rows, number, out.size, out.size, slots, width)
    there = active & (column >= 0) & (column < width)
    factor = np.where(there & weighted, np.repeat(x, number), 1)
    wanted = np.where(there, ring[slot, np.clip(column, 0, width - 1)] * factor, 0)
    found = out[perm] if kind == "by places" else out
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert np.isfinite(found).all()


# ---- compiled by NVRTC --------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1)
@pytest.mark.usefixtures("ninety")
@both_sides
@pytest.mark.parametrize("kind", ["event", "silent", None])
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_gradients_of_coordinates_compile(by_rows, kind, within, dtype):
    with jax.enable_x64(True):
        sides = [jnp.ones((300, 3), dtype), jnp.ones((50, 3), dtype)]
        if kind == "event":
            sides[not by_rows] = sides[not by_rows].astype("int32")
        row, col = jnp.zeros(24_000, "int32"), jnp.zeros(24_000, "int64")
        how = {"event": kind == "event", "silent": kind == "silent", "by_rows": by_rows, "within": within}
        out = jax.ShapeDtypeStruct((24_000,), jnp.dtype(dtype))
        plan = planned(lambda: each.per_coordinate(out, row, col, *sides, **how))
        assert plan.launches[0].grid[0] * 256 in range(24_000, 24_256)


@pytest.mark.covering(strength=1)
@pytest.mark.usefixtures("ninety")
@pytest.mark.parametrize("kind", ["in order", "by places", "rows of equal length", "sorted by delay"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_collects_compiles(kind, weighted, dtype):
    indices, indptr, perm = jnp.zeros((300, 80), "int32"), jnp.arange(301) * 80, jnp.arange(24_000)
    arrays = {
        "by places": (indices.reshape(-1), indptr, perm),
        "rows of equal length": (indices, None, None),
    }.get(kind, (indices.reshape(-1), indptr, None))
    laid = kind == "sorted by delay"
    delays = jnp.ones((300, 5) if laid else 24_000, "int32")
    out = jax.ShapeDtypeStruct((300, 80) if arrays[0].ndim == 2 else (24_000,), jnp.dtype(dtype))
    given = (jnp.ones((5, 50), dtype), *arrays, delays, jnp.ones(300), jnp.zeros(1, "int32"))
    plan = planned(lambda: deliveries.collected(out, *given, weighted=weighted, laid=laid, within=False))
    assert tuple(plan.launches[0].grid[:2]) == (2, 8)


def test_gradients_have_kernels_for_gpus():
    for name in ("coo_per_element", "binary_coo_per_element", "weighted_coo_per_element", "csr_delay_collect"):
        assert "cuda_raw" in be.get_registry()[name].available_backends("gpu")
