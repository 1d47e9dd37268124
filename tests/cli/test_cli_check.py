# SPDX-License-Identifier: Apache-2.0
"""`brainevent check`: which calls of an operator are checked, what is printed, the exit status."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import CommandLine

import brainevent
from brainevent import BenchmarkConfig
from brainevent.operator.check import recorded_calls

CHECK = ("check", "--import", "ours")
OURS = """
    def small(*, outs, **kwargs):
        return lambda x: 2 * x if x.size < 8 else 3 * x

    good = operator("good", "dense", fast=twice, slow=twice)
    wrong = operator("wrong", "sparse", fast=twice, hasty=thrice)
    bare = operator("bare", data=None, fast=twice)
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run commands where the module `ours` defines three operators, one of them wrong and one without data."""
    command = CommandLine(tmp_path, capsys, monkeypatch)
    command.module("ours", OURS)
    return command


# The calls of an operator that its call function makes.


def operator(name, call):
    op = brainevent.XLACustomKernel(name)
    op.def_reference(lambda x, y, *, scale=1.0: {"sum": scale * (x + y)})
    op.def_call(lambda *args, **kwargs: call(op, *args, **kwargs))
    return op


def recorded(op, *args, **kwargs):
    return recorded_calls(op, BenchmarkConfig("data", args, kwargs))


X, Y = jnp.arange(3.0), jnp.ones(3)


def test_operands_are_those_that_reach_the_operator():
    """Also where they are calculated, in a compiled function: the calls that follow get results of the first."""

    @jax.jit
    def inside(op, x):
        first = op(x * 2, jnp.flip(x), backend="reference")["sum"]
        return op(first[:2], first[:2], scale=3.0)

    op = operator("recorded_inside", lambda op, x, backend: jax.jit(inside, static_argnums=0)(op, x))
    first, second = recorded(op, X)
    assert (first.label, second.label) == ("data, call 1", "data, call 2")
    assert first.types == "float32[3], float32[3] -> float32[3]"
    assert second.types == "float32[2], float32[2], scale=3.0 -> float32[2]"
    np.testing.assert_array_equal(first.operands, [[0, 2, 4], [2, 1, 0]])
    np.testing.assert_array_equal(second.operands, [[2, 3], [2, 3]])
    assert jax.tree.map(lambda out: out.shape, second.outs) == {"sum": (2,)}
    assert dict(second.keywords) == {"scale": 3.0}
    assert brainevent.check(second.of(op), *second.operands, outs=second.outs, promises=["jit", "vmap of grad"]).ok


def test_of_a_batch_the_first_element_is_recorded():
    op = operator("recorded_batch", lambda op, x, y, backend: jax.vmap(jax.vmap(op, (0, None)), (1, 1))(x, y))
    [one] = recorded(op, jnp.arange(30.0).reshape(2, 3, 5), jnp.arange(15.0).reshape(5, 3))
    np.testing.assert_array_equal(one.operands, [[0, 1, 2, 3, 4], [0, 3, 6, 9, 12]])
    assert jax.tree.map(lambda out: out.shape, one.outs) == {"sum": (5,)}


def test_calls_of_a_loop_are_recorded_once_and_gradients_too():
    def call(op, x, backend):
        loss = lambda x: jax.lax.scan(lambda y, _: (op(y, x)["sum"], None), x, None, length=4)[0].sum()
        return jax.grad(loss)(x)

    [one] = recorded(operator("recorded_loop", call), X)
    np.testing.assert_array_equal(one.operands, [X, X])


def test_an_operator_that_fails_is_recorded():
    op = brainevent.XLACustomKernel("recorded_failing")
    op.def_reference(lambda x: x[:, 0])
    op.def_call(lambda x, backend=None: op(x, outs=x, backend=backend))
    [one] = recorded(op, X)
    np.testing.assert_array_equal(one.operands, [X])
    assert [row.status for row in brainevent.check(op, *one.operands).failures] == ["failed"]


def test_the_operator_is_as_before_afterwards():
    op = operator("recorded_and_left", lambda op, x, backend: op(x, x))
    evaluate = op.primitive.impl
    recorded(op, X)
    assert op.primitive.impl is evaluate
    op.def_call(lambda x, backend=None: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recorded(op, X)
    assert op.primitive.impl is evaluate


def test_a_call_function_that_does_not_call_the_operator():
    op = operator("recorded_nothing", lambda op, x, backend: x if x.ndim else jax.vmap(op)(x[None][:0], x[None][:0]))
    for x in (X, X[0]):
        with pytest.raises(ValueError, match="with the data 'data', the call function does not call the operator; cal"):
            recorded(op, x)


# The command.


def test_all_promises_hold(run):
    status, out, err = run(*CHECK, "--operators", "good", "--promises", "jit,other sizes,shard_map")
    assert (status, err) == (0, "")
    head, rows = out.strip().split("\n\n")[:2]
    assert head.splitlines() == ["good", "====", "n=4: float32[4] -> float32[4]", "n=12: float32[12] -> float32[12]"]
    assert re.search("fast +other sizes +ok +n=4: size 4: 3, 1, 32,", rows)
    assert {line.split()[0] for line in rows.splitlines()[1:] if line[0] != " "} == {"fast", "slow"}
    assert re.search(r"^(8 ok, 2 skipped|10 ok), with 2 calls$", out, re.MULTILINE)


def test_a_broken_promise(run):
    """A row fails if it does with any of the data, and says with which."""
    run.module("partly", OURS + '    partly = operator("partly", fast=twice, small=small)\n')
    status, out, err = run("check", "--import", "partly:partly", "--promises", "jit")
    assert (status, err) == (1, "brainevent: partly breaks 1 promise\n")
    assert re.search("fast +values +ok", out)
    assert re.search(r"small +values +failed +n=12: output 0: element \[0\] is 3.0, expected 2.0", out)
    assert "5 ok, 1 failed, with 2 calls" in out
    status, out, err = run("check", "--import", "partly:partly", "--promises", "jit", "--quick")
    assert (status, err) == (0, "")
    assert "6 ok, with 1 call" in out
    status, out, err = run("check", "--import", "partly:partly", "--promises", "jit", "--backends", "fast,reference")
    assert (status, err) == (0, "")
    assert re.search("reference +jit +ok", out)


def test_several_operators(run):
    status, out, err = run(*CHECK, "--promises", "jit")
    assert status == 1
    assert re.findall(r"^(\w+) \(\d of 2\)$", out, re.MULTILINE) == ["good", "wrong"]
    assert err == "1 operator skipped; --verbose says why\nbrainevent: wrong breaks 1 promise\n"
    assert run(*CHECK, "--promises", "jit", "--data", "dense")[0] == 0


def test_json(run):
    run.module("loud", """
        def loud(x, backend=None):
            print("called")
            return op(x, backend=backend)

        op = operator("op", fast=twice, hasty=thrice)
        op.def_call(loud)
        bad = operator("bad", data=lambda *, platform: 1 / 0)
    """)  # fmt: skip
    status, out, err = run("check", "--import", "loud", "--promises", "jit", "--quick", "--json")
    found = json.loads(out)
    assert (status, found["platform"], found["errors"]) == (1, "cpu", {"bad": "ZeroDivisionError: division by zero"})
    assert "called\n" in err
    assert err.endswith("brainevent: bad cannot be checked: ZeroDivisionError: division by zero; op breaks 1 promise\n")
    [one] = found["operators"]["op"]
    assert (one["label"], one["call"], one["ok"]) == ("n=4", "float32[4] -> float32[4]", False)
    assert [(row["backend"], row["promise"], row["status"]) for row in one["rows"]] == [
        ("fast", "shapes and dtypes", "ok"), ("fast", "values", "ok"), ("fast", "jit", "ok"),
        ("hasty", "shapes and dtypes", "ok"), ("hasty", "values", "failed"), ("hasty", "jit", "ok"),
    ]  # fmt: skip


LACKING = """
    bare = operator("bare", data=None)
    empty = operator("empty", data=lambda *, platform: [])
    aside = operator("aside", fast=twice)
    aside.def_call(lambda x, backend=None: x)
    alone = operator("alone")
    del alone.definition.rules["reference"]
    alone.def_numba_kernel(twice)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lacking:bare", "nothing is left to check: bare: no benchmark data: store a function with def_benchmark_data"),
        ("lacking:empty", "nothing could be checked of empty: its benchmark data are empty"),
        ("lacking:aside", "aside cannot be checked: ValueError: with the data 'n=4', the call function does not call"),
        ("lacking:alone", "alone cannot be checked: TypeError: operator 'alone': the keyword outs is missing"),
        ("lacking --promises vpj", "--promises: unknown promise 'vpj'; did you mean 'vjp'?; known: shapes and dtypes,"),
        ("lacking --backends fats", "--backends: no operator has a backend 'fats' for cpu; did you mean 'fast'?"),
        ("lacking --operators bear", "there is no operator 'bear'; did you mean 'bare'?"),
    ],
)
def test_where_nothing_is_checked_the_status_says_so(run, words, said):
    run.module("lacking", LACKING)
    status, _, err = run("check", "--import", *words.split())
    assert status == 1
    assert f"brainevent: {said}" in err


def test_a_kernel_whose_language_is_missing(run):
    """Without a kernel that runs and a reference, nothing is checked."""
    run.module("alien", """
        def absent(*, outs):
            raise brainevent.KernelNotAvailableError("the language is not installed")

        alien = operator("alien", absent=absent)
        alien.def_call(lambda x, backend=None: alien(x, outs=x, backend=backend))
        del alien.definition.rules["reference"]
    """)  # fmt: skip
    status, out, err = run("check", "--import", "alien", "--quick")
    assert status == 1
    assert err == (
        "brainevent: nothing could be checked of alien with n=4 (absent: operator 'alien': backend 'absent' on cpu "
        "failed while its kernel was built: KernelNotAvailableError: the language is not installed)\n"
    )
    assert re.search("absent +all +skipped +operator 'alien': backend 'absent' on cpu failed", out)


def test_an_unknown_option_is_a_usage_error(run):
    with pytest.raises(SystemExit) as caught:
        run(*CHECK, "--promisse", "jit")
    assert caught.value.code == 2
    assert "unrecognized arguments: --promisse jit; did you mean '--promises'?" in run.capsys.readouterr().err
