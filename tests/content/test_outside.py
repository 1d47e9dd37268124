# SPDX-License-Identifier: Apache-2.0
"""What Numba calls while it compiles may read more than its content: such a kernel is compiled in every process."""

import functools
import math
import operator
import os
import sys
from time import perf_counter

import numba
import numpy as np
import pytest

from brainevent._content import content_of


def by_environ(value):
    factor = int(os.environ.get("FACTOR", "2"))
    return lambda value: value * factor


def by_getenv(value):
    from os import getenv

    factor = int(getenv("FACTOR", "2"))
    return lambda value: value * factor


def by_an_import(value):
    import pathlib

    factor = len(pathlib.Path.cwd().parts)
    return lambda value: value * factor


def by_a_file(value):
    with open(__file__) as file:
        factor = len(file.readline())
    return lambda value: value * factor


def by_an_array_in_a_file(value):
    factor = np.load("factor.npy")[0]
    return lambda value: value * factor


def by_the_time(value):
    factor = perf_counter()
    return lambda value: value * factor


def by_a_helper(value):
    factor = read_factor()
    return lambda value: value * factor


def read_factor():
    return int(os.environ.get("FACTOR", "2"))


def by_a_function_within(value):
    def read():
        return sys.argv

    factor = len(read())
    return lambda value: value * factor


def by_a_default(value, read=os.getcwd):
    factor = len(read())
    return lambda value: value * factor


def by_types(value):
    if isinstance(value, numba.types.Float):
        return lambda value: np.sqrt(value) * math.pi
    return (lambda value: value) if hasattr(value, "bitwidth") else None


def by_an_enumeration(value):
    factor = functools.reduce(operator.add, range(3))
    return lambda value: value * factor


def content_of_kernel_by(overloading, extend=numba.extending.overload):
    def times(value):
        pass

    extend(times)(overloading)
    return content_of(numba.njit(lambda value: times(value)))


READING = (
    by_a_default, by_a_file, by_a_function_within, by_a_helper, by_an_array_in_a_file, by_an_import, by_environ,
    by_getenv, by_the_time,
)  # fmt: skip


@pytest.mark.parametrize("overloading", READING)
def test_a_kernel_whose_overload_reads_something_else_while_numba_compiles_is_not_kept(overloading):
    content = content_of_kernel_by(overloading)
    assert content.fleeting or content.opaque


@pytest.mark.parametrize("overloading", [by_types, by_an_enumeration])
def test_a_kernel_whose_overload_reads_types_and_constants_is_kept(overloading):
    content = content_of_kernel_by(overloading)
    assert not content.fleeting
    assert not content.opaque


def test_typing_rules_that_read_something_else_count_as_well():
    def function():
        pass

    @numba.extending.type_callable(function)
    def typed(context):
        return lambda: numba.types.int64 if os.environ else None

    content = content_of(numba.njit(lambda: function()))
    assert content.fleeting or content.opaque
