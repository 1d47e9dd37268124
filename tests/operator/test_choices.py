# SPDX-License-Identifier: Apache-2.0
"""Choices take effect on the next call of what is jitted already, and drop no compilation."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import XLACustomKernel, _jit_key, set_backend, use_backend

F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
X = jnp.arange(1.0, 4.0)


@pytest.fixture(autouse=True)
def caches_are_never_cleared(monkeypatch):
    """Nothing that was compiled is dropped."""

    def fail():
        raise AssertionError("jax.clear_caches() was called")

    monkeypatch.setattr(jax, "clear_caches", fail)


class Counted:
    """A jitted function that counts how often it is traced, and what its operator builds."""

    def __init__(self, function):
        self.traces = 0

        def traced(*args):
            self.traces += 1
            return function(*args)

        self.jitted = jax.jit(traced)

    def __call__(self, *args):
        return np.asarray(self.jitted(*args))


def factor(value, built=None):
    """Return a kernel generator that multiplies."""

    def generator(*, outs):
        if built is not None:
            built.append(value)
        return lambda x: value * x

    return generator


class Rig:
    """An operator with two kernels, of names that no other test chooses, and a jitted function of it."""

    def __init__(self, name, like=None):
        self.built = []
        self.op = XLACustomKernel(name)
        self.two, self.three = (like.two, like.three) if like else (f"two_{name}", f"three_{name}")
        self.op.def_kernel(self.two, "cpu", factor(2, self.built))
        self.op.def_kernel(self.three, "cpu", factor(3, self.built))
        self.f = Counted(self.call)

    def again(self, backend, generator=None, **kwargs):
        """Register a kernel again: another one, or itself."""
        known = self.op.definition.kernels["cpu"]
        self.op.def_kernel(backend, "cpu", generator or known[backend].kernel_generator, **kwargs)

    def call(self, x):
        return self.op(x, outs=F32)

    @property
    def factor(self):
        return float(self.f(X)[0])

    @property
    def counts(self):
        return self.f.traces, len(self.built)


@pytest.fixture
def rig(unique_name):
    _jit_key.refresh()  # tests of other files leave files behind that were chosen from, and delete them
    return Rig(unique_name("rig"))


CHANGES = {
    "set_default": (lambda r: r.op.set_default("cpu", r.three), lambda r: r.op.set_default("cpu", r.two)),
    "set_backend": (lambda r: set_backend("cpu", r.three), lambda r: set_backend("cpu", None)),
    "clear_backends": (lambda r: set_backend("cpu", r.three), lambda r: brainevent.config.clear_backends()),
    "asdefault": (lambda r: r.again(r.three, asdefault=True), lambda r: r.again(r.two, asdefault=True)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_takes_effect_at_the_next_call_and_back_finds_what_was_compiled(rig, change):
    there, back = CHANGES[change]
    assert rig.factor == 2
    there(rig)
    assert rig.factor == 3
    assert rig.counts == (2, 2)
    for _ in range(3):
        back(rig)
        assert rig.factor == 2
        there(rig)
        assert rig.factor == 3
    assert rig.counts == (2, 2)


@pytest.mark.parametrize("change", CHANGES)
def test_a_choice_taken_back_applies_to_operators_first_used_in_between(rig, unique_name, change):
    there, back = CHANGES[change]
    late = Rig(unique_name("late"), like=rig)
    together = 3 if change.endswith(("backend", "backends")) else 2
    assert rig.factor == 2
    there(rig)
    assert (rig.factor, late.factor) == (3, together)
    back(rig)
    assert (rig.factor, late.factor) == (2, 2)
    there(rig)
    assert (rig.factor, late.factor) == (3, together)
    assert rig.counts == (2, 2)
    assert late.counts[1] <= 2


def test_registering_again_replaces_the_kernel(rig):
    assert rig.factor == 2
    rig.again(rig.two, factor(5))
    assert rig.factor == 5
    assert rig.f.traces == 2


def set_unread():
    for state in _jit_key._states.values():  # another test of this process may have read it
        state.pop("lfsr_algorithm", None)
    brainevent.config.set_lfsr_algorithm("lfsr128")


NOTHING = {
    "the same default": lambda r, _: r.op.set_default("cpu", r.two),
    "the same kernel": lambda r, _: r.again(r.two),
    "a third kernel": lambda r, _: r.op.def_kernel("four", "cpu", factor(4)),
    "a kernel of another platform": lambda r, _: r.op.def_kernel("two", "gpu", factor(4), asdefault=True),
    "the backend that is the default": lambda r, _: set_backend("cpu", r.two),
    "the backend of another platform": lambda r, _: set_backend("gpu", r.three),
    "no backend": lambda r, _: set_backend("cpu", None),
    "a setting that nobody read": lambda r, _: set_unread(),
    "tags": lambda r, _: r.op.def_tags("a"),
    "a rule that nobody asked for": lambda r, _: r.op.def_jvp_rule2(lambda t, x, **_: t),
    "another operator": lambda _, name: Rig(name("other")).factor,
    "another operator's default": lambda _, name: CHANGES["set_default"][0](Rig(name("other"))),
}


@pytest.mark.parametrize("change", NOTHING)
def test_a_change_that_changes_nothing_retraces_nothing(rig, unique_name, change):
    assert rig.factor == 2
    NOTHING[change](rig, unique_name)
    assert rig.factor == 2
    assert rig.counts == (1, 1)


def test_a_change_asks_only_what_it_can_have_changed(unique_name):
    asked = []
    _jit_key.ask(("a question", unique_name()), lambda: asked.append(1))
    asked.clear()
    XLACustomKernel(unique_name()).def_kernel("numpy", "cpu", factor(2.0))
    brainevent.config.clear_backends()
    brainevent.config.set_numba_parallel(False)
    brainevent.config.emulate(brainevent.config.is_emulating())
    assert not asked
    set_backend("tpu", "numpy")
    assert asked == [1]


def test_a_call_s_own_backend_follows_its_kernel_and_no_default(rig):
    f = Counted(lambda x: rig.op(x, outs=F32, backend=rig.three))
    assert f(X)[0] == 3
    set_backend("cpu", rig.two)
    rig.again(rig.two, factor(7), asdefault=True)
    assert (f(X)[0], f.traces) == (3, 1)
    rig.again(rig.three, factor(5))
    assert (f(X)[0], f.traces) == (5, 2)


def test_eager_calls_follow_too(rig):
    assert rig.call(X)[0] == 2
    rig.op.set_default("cpu", rig.three)
    assert rig.call(X)[0] == 3
    rig.again(rig.three, factor(5))
    assert rig.call(X)[0] == 5
    set_backend("cpu", rig.two)
    assert rig.call(X)[0] == 2
    built = len(rig.built)
    set_backend("cpu", None)
    set_backend("cpu", rig.two)
    assert (rig.call(X)[0], len(rig.built)) == (2, built)


AROUND = {
    "nested jit": lambda f: lambda x: jax.jit(jax.jit(f))(x) + 0,
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, _: (c, f(c)), x, None, length=2)[1][1],
    "while": lambda f: lambda x: jax.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
    "cond": lambda f: lambda x: jax.lax.cond(x[0] > 0, f, lambda x: x, x),
    "vmap": lambda f: lambda x: jax.vmap(f)(x[None])[0],
    "checkpoint": lambda f: jax.checkpoint(f),
    "grad": lambda f: lambda x: jax.grad(lambda x: f(x).sum())(x),
    "grad of scan": lambda f: (
        lambda x: jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0].sum())(x)
    ),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(lambda x: f(x).sum()))(x[None])[0],
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones(3),))[1],
    "custom_vjp": lambda f: _with_custom_vjp(f),
}


def _with_custom_vjp(f):
    wrapped = jax.custom_vjp(f)
    wrapped.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return wrapped


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("change", ["set_default", "set_backend", "asdefault", "again", "use_backend"])
def test_a_choice_reaches_into_every_transformation(rig, around, change):
    op = rig.op
    op.def_jvp_rule2(lambda t, x, **_: op(t, outs=F32))
    op.def_transpose_rule(lambda cts, x, **_: (op(cts[0], outs=F32),))
    f = Counted(AROUND[around](rig.call))
    first = f(X)
    if change == "use_backend":
        with use_backend("cpu", rig.three):
            second = f(X)
    else:
        rig.again(rig.two, factor(3)) if change == "again" else CHANGES[change][0](rig)
        second = f(X)
    np.testing.assert_allclose(second, first * 1.5)
    assert f.traces == 2


REPLACED = {
    "jvp": (lambda op, k: op.def_jvp_rule2(lambda t, x, **_: k * t), lambda f, x: jax.jvp(f, (x,), (x,))[1]),
    "monolithic jvp": (
        lambda op, k: op.def_jvp_rule(lambda p, t, **_: (op(*p, outs=[F32]), [k * t[0]])),
        lambda f, x: jax.grad(lambda x: f(x).sum())(x) * x,
    ),
    "transpose": (
        lambda op, k: op.def_transpose_rule(lambda cts, x, **_: (k * cts[0],)),
        lambda f, x: jax.linear_transpose(f, x)(x)[0],
    ),
    "batching": (
        lambda op, k: op.def_batching_rule(lambda args, axes, **_: ([k * args[0]], [axes[0]])),
        lambda f, x: jax.vmap(f)(x[None])[0],
    ),
    "reference": (lambda op, k: op.def_reference(lambda x: k * x), lambda f, x: jax.jvp(f, (x,), (x,))[1]),
    "reference as kernel": (
        lambda op, k: op.def_reference(lambda x: k * x),
        lambda f, x: f(x, backend="reference"),
    ),
}


@pytest.mark.covering(strength=1, times=2)
@pytest.mark.parametrize("rule", REPLACED)
@pytest.mark.parametrize("inside", ["plain", "scan", "jit", "vmap"])
def test_a_rule_that_is_replaced_is_followed(unique_name, rule, inside):
    define, use = REPLACED[rule]
    op = XLACustomKernel(unique_name("rules"))
    op.def_kernel("one", "cpu", factor(1))

    def f(x, **kwargs):
        call = lambda x: op(x, outs=F32, **kwargs)
        if inside == "scan" and rule != "transpose":
            return jax.lax.scan(lambda c, _: (call(c), None), x, None, length=1)[0]
        return jax.jit(call)(x) if inside == "jit" else call(x)

    whole = Counted((lambda x: jax.vmap(lambda x: use(f, x))(x[None])[0]) if inside == "vmap" else lambda x: use(f, x))
    define(op, 2)
    np.testing.assert_allclose(whole(X), 2 * X)
    define(op, 3)
    np.testing.assert_allclose(whole(X), 3 * X)
    assert whole.traces == 2


def test_a_reference_that_is_replaced_tells_new_types(unique_name):
    op = XLACustomKernel(unique_name("types"))
    op.def_reference(lambda x: x[:2])
    op.def_kernel("jnp", "cpu", lambda *, outs: lambda x: x[: outs[0].shape[0]])
    f = Counted(lambda x: op(x))
    assert f(X).shape == (2,)
    op.def_reference(lambda x: x[:1])
    assert f(X).shape == (1,)


def test_a_sharding_rule_that_is_given_later_is_followed(unique_name):
    op = XLACustomKernel(unique_name("cut"))
    shapes = []
    op.def_kernel("jnp", "cpu", lambda *, outs: shapes.append(outs[0].shape) or (lambda x: 2 * x))
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("d")))
    f = Counted(lambda x: op(x, outs=jax.ShapeDtypeStruct((8,), jnp.float32)))
    np.testing.assert_array_equal(f(x), 2 * jnp.arange(8.0))
    assert (2,) not in shapes
    op.def_sharding_rule("i -> i")
    np.testing.assert_array_equal(f(x), 2 * jnp.arange(8.0))
    assert (2,) in shapes


def test_compiled_ahead_of_time_means_compiled(rig):
    compiled = jax.jit(rig.call).lower(X).compile()
    rig.op.set_default("cpu", rig.three)
    assert compiled(X)[0] == 2
    assert jax.jit(rig.call).lower(X).compile()(X)[0] == 3


# ---- with use_backend ----------------------------------------------------------------------------------------------


def leave_by_an_error(rig):
    with use_backend("cpu", rig.three):
        assert rig.factor == 3
        raise ZeroDivisionError


def test_a_block_chooses_and_gives_back(rig):
    assert rig.factor == 2
    set_backend("cpu", rig.two)
    with use_backend("cpu", rig.three):
        assert rig.factor == 3  # Over the global choice,
        assert rig.op(X, outs=F32, backend=rig.two)[0] == 2  # under that of a call.
        with use_backend("cpu", rig.two):
            assert rig.factor == 2
        assert rig.factor == 3
        set_backend("cpu", None)
        assert rig.factor == 3
    assert rig.factor == 2
    traces = rig.f.traces
    with pytest.raises(ZeroDivisionError):
        leave_by_an_error(rig)
    assert rig.factor == 2
    assert rig.f.traces == traces


def test_a_kernel_replaced_in_a_block_is_replaced_for_that_block_too(rig):
    with use_backend("cpu", rig.three):
        assert rig.factor == 3
    rig.op.def_kernel(rig.three, "cpu", factor(5))
    with use_backend("cpu", rig.three):
        assert rig.factor == 5
        rig.op.def_kernel(rig.three, "cpu", factor(7))
        assert rig.factor == 7
    assert rig.factor == 2


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        (("cpuu", "numba"), ValueError, "unknown platform 'cpuu'; did you mean 'cpu'"),
        (("cpu", ""), ValueError, "use_backend: backend is an empty string"),
        (("cpu", None), TypeError, "backend must be a string such as 'numba', found NoneType"),
    ],
)
def test_invalid_backend_blocks_are_refused(args, error, words):
    with pytest.raises(error, match=words), use_backend(*args):
        raise AssertionError("entered")


def test_a_block_is_of_its_thread(rig):
    entered, checked, seen = threading.Event(), threading.Event(), {}

    def chooses():
        with use_backend("cpu", rig.three):
            seen["before"] = rig.factor
            entered.set()
            checked.wait(30)
            seen["after"] = rig.factor

    thread = threading.Thread(target=chooses)
    thread.start()
    assert entered.wait(30)
    seen["beside"] = rig.factor
    with use_backend("cpu", rig.two):
        seen["own"] = rig.factor
    checked.set()
    thread.join(30)
    assert seen == {"before": 3, "beside": 2, "own": 2, "after": 3}


def test_threads_in_blocks_of_their_own_do_not_meet(rig):
    wrong = []

    def work(backend, value):
        for i in range(20):
            with use_backend("cpu", backend):
                x = X + i % 3
                if not np.array_equal(rig.f(x), value * x):
                    wrong.append((backend, i))

    threads = [threading.Thread(target=work, args=pair) for pair in [(rig.two, 2), (rig.three, 3)] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert len(threads) == 8


def test_a_block_inside_a_jitted_function_chooses_for_what_it_encloses(unique_name):
    op = brainevent.XLACustomKernel(unique_name())
    for backend, factor in (("a", 1), ("b", 2)):
        op.def_kernel(backend, "cpu", lambda *, outs, factor=factor: lambda x: [factor * x])
    op.def_jvp_rule2(lambda t, x, **_: op(t, outs=t))
    op.def_transpose_rule(lambda cts, x, **_: (op(cts[0], outs=cts[0]),))

    @jax.jit
    def f(x):
        with brainevent.use_backend("cpu", "b"):
            y = op(x, outs=x)
        return y + op(x, outs=x)

    x = jnp.ones(2)
    np.testing.assert_array_equal(f(x), [3, 3])
    np.testing.assert_array_equal(jax.vmap(f)(jnp.ones((3, 2)))[1], [3, 3])
    np.testing.assert_array_equal(jax.grad(lambda x: f(x).sum())(x), [3, 3])
    np.testing.assert_array_equal(jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0], [9, 9])
    with brainevent.use_backend("cpu", "b"):
        np.testing.assert_array_equal(f(x), [4, 4])
    np.testing.assert_array_equal(f(x), [3, 3])
