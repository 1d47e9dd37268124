# SPDX-License-Identifier: Apache-2.0
"""How functions of drawn matrices call operators: arguments are checked, and units are split off.

A matrix is drawn line by line. With `corder`, `A @ x` sums each line, and draws all of them. Without, each element of x
has a line, and only the lines of events are drawn.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..calls import checked_x, multiplied
from ..csr.format import CSR
from ..description import Description, Format, Shape
from ..form import split_operand
from ..laws.products import EVENTS, NUMBERS
from ..laws.values import VALUES
from ..laws.whole import WHOLE
from ..room import check_array, check_places, check_room
from ..structure import checked_indptr, checked_shape, known_on_host
from ..synapses.calls import values
from ..table import apply
from .checked import drawn_from, numbers_of_weights, weights_of
from .format import JITU, tables
from .format import given as operands_of
from .numbers import SCALAR, cut_tables, element_weights

__all__ = ["dense", "product", "stored", "times", "whole"]

_Numbers = dict[str, Any]  # by the names that messages call them


def _weights(form: Format, where: str, given: _Numbers) -> Any:
    return weights_of(numbers_of_weights(where, tuple(given), tuple(given.values())), to=form is JITU)


def product(
    form: Format,
    given: _Numbers,
    prob: Any,
    seed: Any,
    named: tuple[str, Any],
    *,
    event: bool,
    shape: Any,
    transpose: bool = False,
    corder: bool = True,
    backend: str | None = None,
) -> Any:
    """Return `A @ x` or, if transposed, `A.T @ x`."""
    name, x = named
    of = Description(form, EVENTS if event else NUMBERS, columns=name == "B")
    shape, transpose = checked_shape(of.name, shape), bool(transpose)
    x, unit = split_operand(x, event=event)
    x = units.join(checked_x(of, name, x, shape, transpose=transpose), unit)
    lines = shape if transpose == (not corder) else shape[::-1]
    weights, drawn = _weights(form, of.name, given), drawn_from(of.name, prob, seed)
    call: dict[str, Any] = {"shape": lines, "transpose": not corder, "backend": backend}
    return multiplied(of, weights, [drawn, tables()], x, indices_within=True, **call)


def dense(
    form: Format,
    given: _Numbers,
    prob: Any,
    seed: Any,
    *,
    shape: Any,
    transpose: bool = False,
    corder: bool = True,
    backend: str | None = None,
) -> Any:
    """Return the matrix that `product` multiplies with, as a dense one."""
    of = Description(form, WHOLE)
    if seed is None:
        raise TypeError(f"{of.name}: seed is None; pass an integer, or a key of jax.random.key")
    shape = checked_shape(of.name, shape)
    lines = shape if bool(transpose) == (not corder) else shape[::-1]
    drawn = drawn_from(of.name, prob, seed)
    return whole(of, _weights(form, of.name, given), drawn, lines, by_rows=bool(corder), backend=backend)


def whole(of: Description, weights: Any, drawn: Any, shape: Shape, *, by_rows: bool, backend: str | None) -> Any:
    """Return a matrix whose lines, of a shape, are its rows or its columns, as a dense one."""
    weights, unit = units.split(weights)
    check_array(of.name, shape, weights.dtype)
    outs = [jax.ShapeDtypeStruct(shape, weights.dtype)]
    (found,) = apply(of, weights, drawn, tables(), shape=shape, backend=backend, outs=outs)
    return units.join(found if by_rows else found.T, unit)


def stored(form: Format, where: str, weights: Any, drawn: Any, shape: Shape) -> tuple[Any, list[jax.Array]]:
    """Return a weight for each element of a matrix, line by line, and the columns and pointers of lines."""
    weights, unit = units.split(weights)
    indptr, columns, words = _elements(where, drawn, shape)
    found = element_weights(form.drawn or 0, weights, cut_tables(tables())[1], jnp.asarray(words))
    return units.join(found, unit), [jnp.asarray(columns), checked_indptr(where, indptr, columns.size)]


def _elements(where: str, drawn: Any, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row pointers, ascending columns, and the words of weights; not under tracing."""
    drawn = known_on_host(where, drawn)
    from .on_cpu_stored import count_rows, fill_rows

    prob = np.clip(np.nan_to_num(drawn[7:8].view(np.float32)[0]), 0, 1)
    about = int(float(prob) * shape[0] * shape[1])  # counting very many takes hours
    check_room(where, f"about {about} elements", 8 * about + 8 * shape[0], on_host=True)
    with jax.ensure_compile_time_eval():
        structure = [np.asarray(x) for x in operands_of(SCALAR, jnp.ones(1), jnp.asarray(drawn), tables())[1]]
    plan, logarithms = structure[0], structure[1].view(np.uint64)
    indptr = np.zeros(shape[0] + 1, np.int64)
    count_rows(plan, logarithms, shape[1], indptr)
    indptr = np.cumsum(indptr)
    number = int(indptr[-1])
    check_room(where, f"{number} elements", 8 * number + 8 * shape[0], on_host=True)
    check_places(where, f"{number} elements", number)
    columns, words = np.empty(number, np.int32), np.empty(number, np.uint32)
    fill_rows(plan, logarithms, shape[1], indptr, columns, words)
    return indptr, columns, words


def times(where: str, y: Any, w: Any, matrix: Any, *, of_columns: bool, backend: str | None) -> Any:
    """Return w times values of rows or columns of a stored matrix, in the product of both units."""
    names, arrays = (where, where), (matrix.indices, matrix.indptr)
    of = Description(CSR, VALUES)
    return values(of, names, y, w, arrays, matrix.shape, of_columns, backend, within=True, unit_of_y=True)
