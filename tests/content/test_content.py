# SPDX-License-Identifier: Apache-2.0
"""Names made of content: equal where the content is, another when any part of it changes."""

import collections
import dataclasses
import enum
import functools
import json
import math
import operator
import sys
import types
import typing
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numba
import numpy as np
import pytest
from forked import run_forked

from brainevent import numba_kernel
from brainevent._content import content_name, content_of

A = collections.namedtuple("P", "a b")
B = collections.namedtuple("P", "b a")


def scaled_by(value):
    return lambda x: x * value


def test_modules_may_hold_one_another(monkeypatch):
    one, other = types.ModuleType("one"), types.ModuleType("other")
    one.other, other.one, one.SCALE = other, one, 2.0
    monkeypatch.setitem(sys.modules, "one", one)

    def names():
        return content_name(numba.njit(lambda x: x * one.SCALE * one.other.one.SCALE))

    before = names()
    assert names() == before
    one.SCALE = 3.0
    assert names() != before


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
        (lambda x: 2.5 * x, lambda x: 3.5 * x),
        (lambda x=2.5: x, lambda x=3.5: x),
        (lambda *, x=2.5: x, lambda *, x=3.5: x),
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


def times_by_overload(factor):
    def times(value):
        pass

    numba.extending.overload(times)(lambda value: lambda value: value * factor)
    return times


def times_by_an_overload_in_a_helper(factor):
    times = times_by_overload(factor)
    return numba.njit(lambda value: times(value))


def times_by_intrinsic(factor):
    @numba.extending.intrinsic
    def times(typing_context, value):
        def codegen(context, builder, signature, args):
            return builder.fmul(args[0], context.get_constant(numba.float32, factor))

        return numba.float32(numba.float32), codegen

    return times


def times_by_jitable(factor):
    return numba.extending.register_jitable(lambda value: value * np.float32(factor))


def times_by_jitclass(factor):
    @numba.experimental.jitclass([("value", numba.float32)])
    class Held:
        def __init__(self, value):
            self.value = value

        def times(self):
            return self.value * factor

    return numba.njit(lambda value: Held(value).times())


def times_by_enumeration(factor):
    class Factors(enum.Enum):
        ONE = factor

    return numba.njit(lambda value: value * Factors.ONE.value)


def times_by_named_tuple(factor):
    pair = collections.namedtuple("pair", "a b" if factor == 2 else "b a")
    return numba.njit(lambda value: value * pair(2, 20).a)


def times_by_typing_and_lowering(factor):
    def times(value):
        pass

    numba.extending.type_callable(times)(lambda context: lambda value: numba.float32)

    @numba.extending.lower_builtin(times, numba.float32)
    def lowered(context, builder, signature, args):
        return builder.fmul(args[0], context.get_constant(numba.float32, factor))

    return times


def times_by_method(factor):
    numba.extending.overload_method(numba.types.Array, "times_for_a_test")(
        lambda array: lambda array: array[0] * factor
    )
    return None, numba.njit(lambda array: array.times_for_a_test())


def times_by_attribute(factor):
    numba.extending.overload_attribute(numba.types.Array, "timed_for_a_test")(
        lambda array: lambda array: array[0] * factor
    )
    return None, numba.njit(lambda array: array.timed_for_a_test)


def times_by_overload_of_a_decorated_function(factor):
    @functools.wraps(times_by_overload)
    def times(value):
        pass

    numba.extending.overload(times)(lambda value: lambda value: value * factor)
    return times


def times_by_overload_of_a_function_in_a_wrapper(factor):
    @functools.lru_cache
    def times(value):
        pass

    numba.extending.overload(times)(lambda value: lambda value: value * factor)
    return times


def times_by_a_partial_that_overloads(factor):
    def times(value):
        pass

    numba.extending.overload(times)(functools.partial(lambda factor, value: lambda value: value * factor, factor))
    return times


def times_by_an_object_that_overloads(factor):
    class Overloading:
        def __call__(self, value):
            return lambda value: value * factor

    def times(value):
        pass

    numba.extending.overload(times)(Overloading())
    return times


def times_by_what_a_class_holds(factor):
    class Settings:
        held = types.SimpleNamespace(factor=factor)

    def times(value):
        pass

    def overloading(value):
        factor = Settings.held.factor
        return lambda value: value * factor

    numba.extending.overload(times)(overloading)
    return times


def times_by_a_method_of_a_dictionary(factor):
    get = {"factor": factor}.get

    def times(value):
        pass

    def overloading(value):
        factor = get("factor")
        return lambda value: value * factor

    numba.extending.overload(times)(overloading)
    return times


def times_by_an_import(factor):
    sys.modules["settings_of_a_test"] = types.ModuleType("settings_of_a_test")
    sys.modules["settings_of_a_test"].FACTOR = factor

    def times(value):
        pass

    def overloading(value):
        from settings_of_a_test import FACTOR as factor  # noqa: N811

        return lambda value: value * factor

    numba.extending.overload(times)(overloading)
    return times


def times_by_a_module_named_like_one_of_python(factor):
    code = types.ModuleType("code")
    code.FACTOR = factor
    sys.modules["code"] = code
    return numba.njit(lambda value: value * code.FACTOR)


def times_by_signatures(factor):
    kind = numba.vectorize([{2: "int32(float32)", 20: "float32(float32)"}[factor]])
    tenth = kind(lambda value: value * 2.5)
    return numba.njit(lambda value: 2 if tenth(value) < 2.25 else 20)


def times_by_a_callback(factor):
    signature = {2: "int32(float32)", 20: "float32(float32)"}[factor]
    tenth = numba.cfunc(signature)(lambda value: value * 2.5)
    return numba.njit(lambda value: 2 if tenth(value) < 2.25 else 20)


def times_by_registries_of_ones_own(factor):
    def times(value):
        pass

    sys.modules[__name__].times = times  # where Numba looks for it
    typing, lowering = numba.core.typing.templates.Registry(), numba.core.imputils.Registry()

    @typing.register_global(times)
    class Template(numba.core.typing.templates.AbstractTemplate):
        key = times

        def generic(self, args, kws):
            return numba.core.typing.templates.signature(args[0], *args)

    @lowering.lower(times, numba.types.Float)
    def lowered(context, builder, signature, args):
        return builder.fmul(args[0], context.get_constant(signature.args[0], factor))

    cpu = numba.core.registry.cpu_target
    cpu.typing_context.install_registry(typing)
    cpu.target_context.install_registry(lowering)
    return times


def times_by_where_a_try_begins(factor):
    names = {"numba": numba, "np": np}
    lines = ["try:\n  a = bad(x)\n  r = 1", "a = bad(x)\n try:\n  r = 1"][factor == 20]
    source = f"""
@numba.njit
def bad(value):
    if value > 0:
        raise ValueError("no")
    return value


@numba.njit
def tried(x):
 r = 2
 {lines}
 except Exception: r = 2
 return r
"""
    exec(source, names)
    tried = names["tried"]

    @numba.njit
    def outer(value):
        try:
            return tried(value)
        except Exception:  # noqa: BLE001 - Numba knows no other
            return 20

    return outer


WAYS = (
    times_by_a_callback,
    times_by_a_method_of_a_dictionary,
    times_by_a_module_named_like_one_of_python,
    times_by_a_partial_that_overloads,
    times_by_an_import,
    times_by_an_object_that_overloads,
    times_by_overload_of_a_decorated_function,
    times_by_overload_of_a_function_in_a_wrapper,
    times_by_registries_of_ones_own,
    times_by_signatures,
    times_by_what_a_class_holds,
    times_by_where_a_try_begins,
    times_by_overload,
    times_by_an_overload_in_a_helper,
    times_by_intrinsic,
    times_by_jitable,
    times_by_jitclass,
    times_by_enumeration,
    times_by_named_tuple,
    times_by_typing_and_lowering,
    times_by_method,
    times_by_attribute,
)


def computed(make):
    """Return what two kernels compute that differ in what Numba was taught, as in a notebook whose cell runs again."""

    def kernel_of(factor):
        made = make(factor)
        times, of_array = made if isinstance(made, tuple) else (made, None)
        if of_array is not None:
            return numba.njit(lambda x, out: first_of(out, of_array(x)))

        @numba.njit
        def kernel(x, out):
            out[0] = times(x[0])

        return kernel

    x = jnp.ones(1, jnp.float32)
    return [int(numba_kernel(kernel_of(factor), outs=x)(x)[0]) for factor in (2, 20)]


def test_kernels_that_differ_in_what_numba_was_taught_are_not_mixed_up():
    """In a process of its own: what arrays are taught is part of the name of every kernel that is compiled later."""
    source = "import json, test_content as t; print(json.dumps({way.__name__: t.computed(way) for way in t.WAYS}))"
    assert json.loads(run_forked(source)) == {way.__name__: [2, 20] for way in WAYS}


@numba.njit
def first_of(out, value):
    out[0] = value


@pytest.mark.parametrize("times_by", [times_by_overload, times_by_intrinsic])
def test_what_is_taught_for_one_kernel_leaves_the_names_of_others_alone(times_by):
    def name_of_kernel_by(factor):
        times = times_by(factor)
        return content_name(numba.njit(lambda value: times(value)))

    kernel = numba.njit(scaled_by(3))
    before = content_name(kernel)
    taught = name_of_kernel_by(5)
    assert content_name(kernel) == before
    assert taught == name_of_kernel_by(5) != name_of_kernel_by(6)


def test_options_of_an_overload_count():
    def kernel_of(**options):
        def looked_at(value):
            pass

        numba.extending.overload(looked_at, **options)(lambda value: lambda value: 1 / value)
        return content_name(numba.njit(lambda value: looked_at(value)))

    names = [kernel_of(jit_options={"error_model": model}) for model in ("python", "numpy", "python")]
    assert names[0] == names[2] != names[1]
    assert names[0] != kernel_of(jit_options={"error_model": "python"}, inline="always")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.ones((2, 3)), np.asfortranarray(np.ones((2, 3)))),
        ([1].copy, [2].copy),
        (slice(1, 3), slice(1, 4)),
        (
            numba.vectorize(["float32(float64)"])(abs_of := lambda x: abs(x)),
            numba.vectorize(["float64(float64)"])(abs_of),
        ),
    ],
)
def test_what_looks_alike_has_another_name(one, other):
    assert content_name(one) == content_name(one)
    assert content_name(one) != content_name(other)


class Rounded(float):
    def __repr__(self):
        return "about one"


def with_locals(kind):
    return numba.njit(lambda x: x * 0.5, locals={"x": kind})


def with_options(model):
    return numba.cfunc("float64(float64)", error_model=model)(inverse)


def inverse(x):
    return 1 / x


def reading(value):
    """Return a function that reads a value where code of a kind of user leaves it."""
    module = types.ModuleType("module_of_a_test")
    module.VALUE = value
    return module


def by_getattr(value):
    module = reading(value)
    return lambda: getattr(module, "VALUE")  # noqa: B009


def by_tuple(value):
    modules = (reading(value),)
    return lambda: modules[0].VALUE


def value_of(module):
    return module.VALUE


def by_argument(value):
    module = reading(value)
    return lambda: value_of(module)


def by_partial(value):
    return functools.partial(value_of, reading(value))


def by_default(value):
    return lambda module=reading(value): module.VALUE  # noqa: B008


def by_other_name(value):
    module = reading(value)

    def reads():
        other = module
        return value_of(other)

    return reads


def by_module_within(value):
    module = types.ModuleType("module_of_a_test_around")
    module.within = reading(value)
    return lambda: value_of(module.within)


def by_function_attribute(value):
    def held():
        return held.value

    held.value = value
    return held


def by_metaclass(value):
    class Meta(type):
        def scale(cls):
            return value

    class Scaled(metaclass=Meta):
        pass

    return lambda: Scaled.scale()


def by_class_of_a_tuple(value):
    class Pair(collections.namedtuple("Pair", "a b")):
        __slots__ = ()

        def scaled(self):
            return self.a * value

    pair = Pair(1, 2)
    return lambda: pair.scaled()


def by_class_without_a_module(value):
    names = {"enum": enum}
    exec(f"class Factors(enum.IntEnum):\n    ONE = {value}", names)
    factors = names["Factors"]
    return lambda: factors.ONE


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (lambda x: x, Rounded(1.0001), Rounded(1.0002)),
        (lambda x: x, math.nan, math.copysign(math.nan, -1)),
        (lambda x: x, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (lambda x: x, collections.defaultdict(int), collections.defaultdict(float)),
        (with_locals, numba.int32, numba.float32),
        (with_options, "python", "numpy"),
        (by_getattr, 1, 2),
        (by_tuple, 1, 2),
        (by_argument, 1, 2),
        (by_partial, 1, 2),
        (by_default, 1, 2),
        (by_other_name, 1, 2),
        (by_module_within, 1, 2),
        (by_function_attribute, 1, 2),
        (by_metaclass, 1, 2),
        (by_class_of_a_tuple, 1, 2),
        (by_class_without_a_module, 1, 2),
    ],
)
def test_what_a_function_reaches_counts(make, one, other):
    assert content_name(make(one)) == content_name(make(one))
    assert content_name(make(one)) != content_name(make(other))


def test_settings_of_numba_that_a_function_reads_count(monkeypatch):
    reads = numba.njit(lambda: numba.config.NUMBA_NUM_THREADS)
    before = content_name(reads)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 4711)
    assert content_name(reads) != before


def test_a_function_that_hides_what_it_reads_is_opaque():
    assert content_of(lambda: globals()["A"]).opaque == "a function that calls globals()"


def test_a_function_that_reads_a_module_by_computed_names_is_opaque():
    module, names = reading(1), {"of": "VALUE"}
    functions = (
        lambda: getattr(module, names["of"]),
        lambda: getattr(module, "VAL" + names["of"][3:], 0),
        lambda: vars(module)[names["of"]],
        lambda: operator.attrgetter("VALUE")(module),
        lambda: next(map(getattr, [module], ["VALUE"])),
    )
    for function in functions:
        assert "by computed names, which may read a module" in content_of(function).opaque
    by_constants = (lambda: getattr(module, "VALUE", None), lambda: getattr(names, names["of"], 0))
    assert [content_of(function).opaque for function in by_constants] == [None, None]


def test_what_cannot_be_looked_at_is_opaque():
    endless = []
    endless.append(endless)
    assert "RecursionError" in content_of(scaled_by(endless)).opaque


def test_code_that_points_to_an_array_keeps_it():
    def kernel_of(table):
        @numba.njit
        def kernel(x, out):
            out[0] = table[0] + x[0]

        return kernel

    x = jnp.ones(1)
    for _ in range(3):  # equal kernels, of which the code of the first is used
        assert numba_kernel(kernel_of(np.full(300_000, 5.0)), outs=x)(x)[0] == 6
        np.full(300_000, 7.0)


def test_how_values_are_laid_out_counts():
    """In a process of its own, as above."""
    source = """
        import numba, test_content as t
        from numba.core.rewrites import Rewrite, register_rewrite
        from numba.extending import models, register_model

        class Kind(numba.types.Type):
            pass

        kernel, names = numba.njit(lambda x: x), []
        for factor in (2, 20):
            names.append(t.content_name(kernel))

            class Model(models.OpaqueModel):
                scale = factor

            register_model(type("Kind", (Kind,), {}))(Model)
            names.append(t.content_name(kernel))

            @register_rewrite("before-inference")
            class Rewriting(Rewrite):
                scale = factor

                def match(self, *_):
                    return False

        print(len(set(names)))
    """
    assert run_forked(source) == "4\n"


def test_an_object_that_wraps_a_function_is_more_than_that():
    class Wrapping:
        def __init__(self, function):
            functools.update_wrapper(self, function)

    assert "Wrapping" in content_of(Wrapping(scaled_by(3))).opaque


def stencil_of(value):
    return numba.stencil(lambda a: a[0] * value)


def data_class_of(value):
    @dataclasses.dataclass
    class Held:
        values: list = dataclasses.field(default_factory=lambda: [value])

    return Held


def protocol_of(value):
    class Scaling(typing.Protocol):
        def scale(self):
            return value

    return Scaling


@pytest.mark.parametrize("make", [stencil_of, data_class_of, protocol_of])
def test_what_decorators_and_protocols_make_has_content(make):
    assert content_of(scaled_by(make(2))).opaque is None
    assert content_name(scaled_by(make(2))) != content_name(scaled_by(make(3)))
    if make is not stencil_of:  # it has looked at its closure already
        assert content_of(scaled_by(make(2))) == content_of(scaled_by(make(2)))


def test_a_stencil_of_nothing_else_has_a_name():
    def make(**options):
        return numba.stencil(**options)(lambda a: a[0] + a[1])

    assert content_of(make()) == content_of(make())
    assert not content_of(make()).fleeting
    assert content_name(make()) != content_name(make(neighborhood=((0, 2),)))


def test_threads_give_one_kernel_one_name():
    def names():
        def looked_at(value):
            pass

        for _ in range(20):
            numba.extending.overload(lambda value: None)(lambda value: lambda value: value)
        numba.extending.overload(looked_at)(lambda value: lambda value: value + 1)
        kernel = numba.njit(lambda value: looked_at(value))
        with ThreadPoolExecutor(3) as threads:
            return {*threads.map(lambda _: content_name(kernel), range(3))}

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert [len(names()) for _ in range(20)] == [1] * 20
    finally:
        sys.setswitchinterval(before)


def test_line_numbers_are_kept_apart_from_the_name_of_code():
    def compiled(line):
        names = {}
        exec(compile("\n" * line + "def f(x):\n    raise ValueError(x)", "user.py", "exec"), names)
        return names["f"]

    first, second = content_of(compiled(1)), content_of(compiled(7))
    assert first.name == second.name
    assert first.places != second.places
    assert content_of(compiled(1)) == first


def test_opaque_content_names_its_reason():
    assert content_of(scaled_by(3)).opaque is None
    assert content_of(scaled_by(object())).opaque == "an object of type builtins.object"
