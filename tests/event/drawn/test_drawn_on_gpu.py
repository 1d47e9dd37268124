# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ kernels of drawn matrices, without a GPU: lane by lane as C++, and compiled by NVRTC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from product_promises import ninety, planned
from warps_on_cpu import built, launched

from brainevent.event import table
from brainevent.event.bitpack import bitpack
from brainevent.event.description import Description
from brainevent.event.drawn import on_gpu
from brainevent.event.drawn.checked import drawn_from
from brainevent.event.drawn.format import DRAWN, JITN, JITS, given, tables
from brainevent.event.drawn.tables import CELLS, FRACTION, NORMAL_CELLS
from brainevent.event.laws.products import EVENTS, NUMBERS
from brainevent.event.laws.whole import WHOLE

__all__ = ["ninety"]

every_format = pytest.mark.parametrize("form", DRAWN, ids=lambda form: form.name)
EVENTS_OF = {0: 1, 1: 0, 2: 1}  # of which kind the pretend kernels take events

_RUN = """
extern "C" int whole_KIND(A* p, unsigned* n, unsigned* l, int* q, W* out, long long rows, long long columns) {
  return run(rows, [=] { kind_KIND::drawn_whole(p, n, l, q, out, rows, columns); });
}
extern "C" int gather_KIND(A* p, unsigned* n, unsigned* l, int* q, A* x, A* out, long long rows, long long columns) {
  return run((rows * LANES + 31) / 32, [=] { kind_KIND::drawn_gather(p, n, l, q, x, out, rows, columns); });
}
extern "C" int gather_bits_KIND(A* p, unsigned* n, unsigned* l, int* q, unsigned* x, A* out, long long rows,
                                long long columns) {
  return run((rows * LANES + 31) / 32, [=] { kind_KIND::drawn_gather_bits(p, n, l, q, x, out, rows, columns); });
}
extern "C" int scatter_KIND(A* p, unsigned* n, unsigned* l, int* q, A* x, A* out, long long rows, long long columns) {
  return run((rows + 7) / 8 * 2, [=] { kind_KIND::drawn_scatter(p, n, l, q, x, out, rows, columns, 2); });
}
extern "C" int gather_matrix_KIND(A* p, unsigned* n, unsigned* l, int* q, A* x, A* out, long long rows,
                                  long long columns, long long width) {
  return run(rows * ((width + 3) / 4),
             [=] { kind_KIND::drawn_gather_matrix(p, n, l, q, x, out, rows, columns, width); });
}
extern "C" int scatter_matrix_KIND(A* p, unsigned* n, unsigned* l, int* q, A* x, A* out, long long rows,
                                   long long columns, long long width) {
  return run(rows * ((width + 3) / 4) * 2,
             [=] { kind_KIND::drawn_scatter_matrix(p, n, l, q, x, out, rows, columns, 2, width); });
}
"""


def pretend(kind, name, lanes=32, words=0):
    """Return a kernel of all as C++: warps take eight rows, and four columns of a matrix x; two share a row."""
    numbers = {"FEW": 8, "ACROSS": 4, "CELLS": CELLS, "FRACTION": FRACTION, "NORMAL_CELLS": NORMAL_CELLS}
    numbers |= {"LANES": lanes, "WORDS": words, "BLOCK": 32}
    text = "".join(f"#define {key} {value}\n" for key, value in numbers.items())
    text += "typedef float A;\ntypedef float W;\ntypedef float E;\ntypedef float O;\n"
    for each, events in EVENTS_OF.items():
        text += f"#define KIND {each}\n#define EVENTS {events}\nnamespace kind_{each} {{\n{on_gpu.text()}}}\n"
        text += f"#undef KIND\n#undef EVENTS\n{_RUN.replace('KIND', str(each))}"
    return getattr(built(text), f"{name}_{kind}")


def operands(form, prob=0.3, origin=(0, 0)):
    weights = jnp.array([1.5, 0.5][: form.stored((), (0, 0))[0]], jnp.float32)
    drawn = drawn_from("test", prob, 11) + jnp.array([0] * 5 + [*origin, 0, 0, 0], jnp.uint32)
    return weights, drawn


def on_cpu(form, law, weights, drawn, *x, **how):
    of = Description(form, law, columns=bool(x) and x[0].ndim == 2)
    return np.asarray(table.TABLE[of](weights, drawn, tables(), *x, **how)[0])


@pytest.mark.covering(strength=1)
@every_format
@pytest.mark.parametrize("prob", [0.0, 0.02, 0.3, 0.9, 1.0])
def test_lanes_draw_the_same_matrix_to_the_last_bit(form, prob):
    weights, drawn = operands(form, prob, (3, 70))
    wanted = on_cpu(form, WHOLE, weights, drawn, shape=(9, 600))
    parts, structure = given(form.drawn, weights, drawn, tables())
    found = np.zeros((9, 600), np.float32)
    launched(pretend(form.drawn, "whole"), *map(np.array, (parts, *structure)), found, *found.shape)
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("narrow", ["25", "0"])
def test_rows_of_many_segments_are_walked_in_32_bits_and_in_64(monkeypatch, narrow):
    text = on_gpu.text()
    assert text.count("NARROW = 25") == 1
    monkeypatch.setattr(on_gpu, "text", lambda: text.replace("NARROW = 25", f"NARROW = {narrow}"))
    weights, drawn = operands(JITN, 0.9, (3, 70))
    wanted = on_cpu(JITN, WHOLE, weights, drawn, shape=(2, 5000))
    parts, structure = given(JITN.drawn, weights, drawn, tables())
    given_first = [np.array(x) for x in (parts, *structure)]
    found = np.zeros((2, 5000), np.float32)
    launched(pretend(JITN.drawn, "whole"), *given_first, found, *found.shape)
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
    x, sums = np.random.default_rng(0).integers(0, 3, 5000).astype(np.float32), np.zeros(2, np.float32)
    for lanes in (1, 8, 32):
        sums[:] = np.nan
        launched(pretend(JITN.drawn, "gather", lanes), *given_first, x, sums, *found.shape)
        taken = (x != 0) if EVENTS_OF[JITN.drawn] else x
        np.testing.assert_allclose(sums, wanted.astype(np.float64) @ taken, rtol=1e-4)


@pytest.mark.covering(strength=1)
@every_format
@pytest.mark.parametrize(("lanes", "words"), [(1, 32), (4, 0), (32, 8)])
@pytest.mark.parametrize("columns", [1, 40, 900])
def test_events_are_read_as_bits(form, lanes, words, columns):
    if words and words < columns / 32:
        columns = 32 * words - 3
    weights, drawn = operands(form, 0.3, (3, 70))
    x = np.random.default_rng(0).random(columns) < 0.4
    wanted = on_cpu(form, EVENTS, weights, drawn, jnp.asarray(x), shape=(37, columns), transpose=False)
    parts, structure = given(form.drawn, weights, drawn, tables())
    found = np.full(37, np.nan, np.float32)
    bits = np.array(bitpack(jnp.asarray(x), 0))
    kernel = pretend(form.drawn, "gather_bits", lanes, words)
    launched(kernel, *map(np.array, (parts, *structure)), bits, found, 37, columns)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.covering(strength=0)
@every_format
@pytest.mark.parametrize("width", [None, 1, 6])
@pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
def test_lanes_multiply_with_it(form, width, transpose):
    shape, kind = (11, 300), form.drawn
    weights, drawn = operands(form, 0.3)
    law = EVENTS if EVENTS_OF[kind] else NUMBERS
    taken, size = shape if transpose else shape[::-1]
    x = np.random.default_rng(0).integers(-1, 2, taken if width is None else (taken, width)).astype(np.float32)
    x[0] = 0
    wanted = on_cpu(form, law, weights, drawn, jnp.asarray(x), shape=shape, transpose=transpose)
    parts, structure = given(kind, weights, drawn, tables())
    found = np.zeros((size, *x.shape[1:]), np.float32)
    name = ("scatter" if transpose else "gather") + "_matrix" * (width is not None)
    numbers = (*shape, *([] if width is None else [width]))
    launched(pretend(kind, name), *map(np.array, (parts, *structure)), x, found, *numbers)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", [pytest.param(JITS, marks=pytest.mark.thorough), JITN], ids=lambda form: form.name)
@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", *(pytest.param(dtype, marks=pytest.mark.thorough) for dtype in ("float32", "float16", "float64"))],
)
def test_nvrtc_compiles_all_kernels(ninety, form, dtype):
    with jax.enable_x64(True):
        weights, drawn = jnp.ones(form.stored((), (0, 0)), dtype), operands(form)[1]
        for transpose, x in ((False, jnp.ones((100, 5), dtype)), (True, jnp.ones(100, dtype))):
            out = jax.ShapeDtypeStruct((40, *x.shape[1:]), dtype)
            product = on_gpu.cuda_product([out], form.drawn, transpose=transpose, event=transpose)
            (launch,) = planned(lambda: product(weights, drawn, tables(), x)).launches  # noqa: B023
            rows = 100 if transpose else 40
            assert launch.grid[0] * launch.block[0] >= 32 * rows * x.ndim // 2
        whole = on_gpu.cuda_whole([jax.ShapeDtypeStruct((40, 100), dtype)], form.drawn)
        (launch,) = planned(lambda: whole(weights, drawn, tables())).launches
        assert launch.grid[0] * launch.block[0] >= 32 * 40
