# SPDX-License-Identifier: Apache-2.0
"""Names made of content: equal where the content is, another when any part of it changes."""

import collections
import functools
import math
import sys
import types

import jax.numpy as jnp
import numba
import numpy as np
import pytest

from brainevent import numba_kernel
from brainevent._content import content_name

A = collections.namedtuple("P", "a b")
B = collections.namedtuple("P", "b a")


def scaled_by(value):
    return lambda x: x * value


@pytest.fixture
def settings(monkeypatch):
    """A user's module, whose attributes kernels read."""
    module, inner = types.ModuleType("settings"), types.ModuleType("settings.inner")
    module.SCALE, module.inner, inner.OFFSET = 1.0, inner, 0.0
    monkeypatch.setitem(sys.modules, "settings", module)
    return module


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ("a", b"a"),
        ((1, 2), [1, 2]),
        (A(1.0, 2.0), B(1.0, 2.0)),
        (np.arange(3), np.arange(3.0)),
        (np.arange(3), np.arange(3)[:, None]),
        (math.sin, math.cos),
        (np.float32, np.float64),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (numba.njit(scaled_by(1)), numba.njit(scaled_by(1), fastmath=True)),
    ],
)
def test_what_differs_has_another_name(one, other):
    for wrap in (lambda value: value, scaled_by):
        assert content_name(wrap(one)) == content_name(wrap(one))
        assert content_name(wrap(one)) != content_name(wrap(other))


def test_what_has_no_content_is_never_met_again():
    assert content_name(scaled_by(object())) != content_name(scaled_by(object()))
    opaque = scaled_by(object())
    assert content_name(opaque) != content_name(opaque)


def test_what_makes_kernels_is_known_by_its_name_and_version():
    """It holds locks and caches, which have no content; so has no generator that names it."""

    def generator(*, outs):
        return numba_kernel(kernel, outs=outs)

    def kernel(x, out):
        out[...] = x

    assert content_name(generator) == content_name(generator)


def test_helpers_count_however_deep():
    def chain(value):
        inner = numba.njit(scaled_by(value))
        return numba.njit(lambda x: inner(x) + 1)

    assert content_name(chain(1)) == content_name(chain(1))
    assert content_name(chain(1)) != content_name(chain(2))


def test_attributes_of_a_users_module_count(settings):
    def make():
        @numba.njit
        def kernel(x, out):
            for i in range(x.size):
                out[i] = x[i] * settings.SCALE + settings.inner.OFFSET

        return kernel

    x, names = jnp.ones(2), set()
    for scale, offset in ((1.0, 0.0), (5.0, 0.0), (5.0, 3.0), (1.0, 0.0)):
        settings.SCALE, settings.inner.OFFSET = scale, offset
        kernel = make()
        np.testing.assert_array_equal(numba_kernel(kernel, outs=x)(x), [scale + offset] * 2)
        names.add(content_name(kernel))
    assert len(names) == 3
