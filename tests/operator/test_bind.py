# SPDX-License-Identifier: Apache-2.0
"""What a bind carries: authors never see it, and it tells calls apart that are equal to a cache."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import pytest
from hypothesis import given

import brainevent
from brainevent.operator.batch import Level
from brainevent.operator.bind import CARRIED, RESERVED, Carried, completed, split, with_levels

VALUES = st.one_of(
    st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.just("1"), st.tuples(st.booleans() | st.just(1))
)
PARAMS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
LEVELS = st.lists(st.builds(Level, st.integers(0, 3), st.just((0, None))), max_size=2).map(tuple)


@given(PARAMS, LEVELS)
def test_authors_get_back_what_they_gave(params, levels):
    whole = with_levels(completed(params), levels)
    assert split(whole)[0] == params
    assert split(whole)[1].levels == levels
    assert completed(completed(whole)) == completed(whole)


@given(PARAMS, PARAMS)
def test_parameters_are_equal_only_if_they_read_the_same(one, other):
    same = repr(sorted(one.items())) == repr(sorted(other.items()))
    assert (completed(one) == completed(other)) == same


@given(LEVELS, st.booleans())
def test_the_block_around_the_first_bind_counts(levels, inner):
    with brainevent.use_backend("cpu", "first"):
        params = completed({"a": 1})
    again = with_levels(params, levels)
    with brainevent.use_backend("cpu", "second" if inner else "first"):
        assert split(completed(again))[1] == Carried(levels, (("cpu", "first"),))


def test_nothing_is_carried_where_there_is_nothing_to_carry():
    params = {"outs": (), "a": 1, "b": "x"}
    assert completed(params) is params
    assert repr(Carried()) == "Carried()"
    structure = jax.tree.structure({"a": 1})
    assert Carried(tree=(structure,)) != Carried()
    assert (Carried(tree=(structure,)).structure, Carried().structure) == (structure, None)
    assert repr(Carried(tree=(structure,))) == f"Carried(tree=({structure},))"
    assert repr(Carried(levels=(Level(2, (0,)),))) == "Carried(levels=(Level(size=2, axes=(0,)),))"


@pytest.mark.parametrize("keyword", sorted(RESERVED))
def test_names_of_the_bind_are_reserved_keywords(unique_name, keyword):
    operator = brainevent.XLACustomKernel(unique_name("carries"))
    with pytest.raises(TypeError, match=f"the keyword '{keyword}' is reserved"):
        operator(jnp.ones(3), outs=jax.ShapeDtypeStruct((3,), jnp.float32), **{keyword: 1})
    assert CARRIED in RESERVED
