# SPDX-License-Identifier: Apache-2.0
"""Kernels whose helpers Numba compiled earlier: the name says what the code holds, or is one of this process."""

import functools
import itertools
import sys
import types
import weakref

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from forked import run_forked

import brainevent
from brainevent._content import compiled, content_name, content_of, named
from brainevent._content.named import OpaqueError
from brainevent.toolchain import cache

X = jnp.ones(1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kernel_by(helper):
    @numba.njit
    def kernel(x, out):
        out[0] = helper(x[0])

    return kernel


def kernel_of_its_own(helper):
    """Return a kernel that is compiled in this process, as none was that is equal to it."""
    number = next(NUMBERS)

    @numba.njit
    def kernel(x, out):
        out[0] = helper(x[0]) if number else x[0]

    return kernel


NUMBERS = itertools.count(1)


def run(kernel, x=X):
    return float(brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)[0])


def defined(source, **names):
    """Return what a source defines, in a namespace of its own."""
    names |= {"numba": numba, "np": np, "__name__": "a_module_of_a_test"}
    exec(source, names)
    return types.SimpleNamespace(names=names, helper=names["helper"])


def times(factor, **options):
    return numba.njit(**options)(lambda x: x * factor)


def by_a_number(value):
    return defined("@numba.njit\ndef helper(x): return x * VALUE", VALUE=value)


def by_a_function(value):
    return defined("@numba.njit\ndef helper(x): return VALUE(x)", VALUE=times(value))


def by_a_function_written_inline(value):
    return defined("@numba.njit\ndef helper(x): return VALUE(x)", VALUE=times(value, inline="always"))


def by_a_function_two_calls_away(value):
    source = "@numba.njit\ndef inner(x): return VALUE(x)\n@numba.njit\ndef helper(x): return inner(x)"
    return defined(source, VALUE=times(value))


def by_an_array(value):
    return defined("@numba.njit\ndef helper(x): return x * VALUE[0]", VALUE=np.array([value]))


def by_a_module(value):
    source = "@numba.njit\ndef helper(x): return x * VALUE.SCALE"
    module = types.ModuleType("module_of_a_test")
    module.SCALE = value
    return defined(source, VALUE=module)


def by_a_closure(value):
    @numba.njit
    def helper(x):
        return value * x

    return types.SimpleNamespace(helper=helper, names=None)


def by_an_overload(value):
    source = """
def times(x): pass
@numba.extending.overload(times)
def overloading(x):
    value = VALUE
    return lambda x: x * value
@numba.njit
def helper(x): return times(x)
"""
    return defined(source, VALUE=value)


MAKERS = [
    by_a_number, by_a_function, by_a_function_written_inline, by_a_function_two_calls_away, by_an_array, by_a_module,
    by_a_closure,
]  # fmt: skip


def rebind(made, other):
    if made.names is None:
        made.helper.py_func.__closure__[0].cell_contents = other.helper.py_func.__closure__[0].cell_contents
    else:
        made.names["VALUE"] = other.names["VALUE"]


@pytest.fixture(params=["by a kernel", "by a call"])
def use(request):
    """Let Numba compile a helper."""
    return (lambda helper: run(kernel_of_its_own(helper))) if request.param == "by a kernel" else lambda x: x(1.0)


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize("make", MAKERS)
def test_a_name_is_that_of_the_content_until_something_is_bound_anew(make, use):
    made, before = make(2), content_of(kernel_by(make(2).helper))
    assert use(made.helper) == 2
    assert content_of(kernel_by(made.helper)) == before
    assert not before.fleeting
    rebind(made, make(3))
    after = content_of(kernel_by(made.helper))
    assert after.fleeting
    assert after == content_of(kernel_by(made.helper))
    assert after.opaque is None
    assert after.name not in (before.name, content_of(kernel_by(make(3).helper)).name)


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize("make", MAKERS)
def test_what_is_compiled_anew_has_the_name_of_its_content(make, use):
    made = make(2)
    use(made.helper)
    rebind(made, make(3))
    for helper in filter(None, (made.names and made.names.get("inner"), made.helper)):
        helper.recompile()
    assert content_of(kernel_by(made.helper)) == content_of(kernel_by(make(3).helper))
    assert run(kernel_by(made.helper)) == 3


def test_what_a_helper_calls_may_be_compiled_anew_without_it():
    made = by_a_function_two_calls_away(2)
    assert run(kernel_of_its_own(made.helper)) == 2
    rebind(made, by_a_function(3))
    made.names["inner"].recompile()
    assert not content_of(kernel_by(made.names["inner"])).fleeting
    assert content_of(kernel_by(made.helper)).fleeting
    assert run(kernel_of_its_own(made.helper)) == 2  # as Numba does it


def test_kept_code_is_that_of_the_name(tmp_path):
    """The first process keeps nothing that it compiled from a function which is no longer named."""
    (tmp_path / "other.py").write_text(
        "import numba\nimport test_compiled_before as t\n"
        "made = t.by_a_function(2)\nprint(t.run(t.kernel_by(made.helper)))\n"
        "t.rebind(made, t.by_a_function(3))\nprint(t.run(t.kernel_by(made.helper)))\n"
    )
    with_tests = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    assert run_forked(with_tests + "import other") == "2.0\n2.0\n"
    source = "import test_compiled_before as t; print(t.run(t.kernel_by(t.by_a_function(3).helper)))"
    assert run_forked(source) == "3.0\n"


def test_a_second_type_is_kept_too():
    kernel = kernel_of_its_own(by_a_number(2).helper)
    assert [run(kernel), run(kernel, jnp.ones(1, jnp.int32))] == [2, 2]
    assert [entry.name for entry in cache.entries()] == ["numba_kernel"] * 2


@pytest.mark.parametrize("make", MAKERS)
def test_of_what_was_compiled_unseen_only_what_numba_notes_is_sure(make, monkeypatch):
    made = make(2)
    made.helper(1.0)
    monkeypatch.setattr(compiled, "_sources", weakref.WeakKeyDictionary())
    noted = make in (by_a_number, by_a_function, by_a_function_two_calls_away, by_a_closure)
    assert content_of(kernel_by(made.helper)).fleeting != noted
    rebind(made, make(3))
    assert content_of(kernel_by(made.helper)).fleeting


def test_what_was_compiled_unseen_may_call_what_was_compiled_since(monkeypatch):
    made = by_a_function(2)
    made.helper(1.0)
    monkeypatch.setattr(compiled, "_sources", weakref.WeakKeyDictionary())
    made.names["VALUE"].recompile()
    assert content_of(kernel_by(made.helper)).fleeting


def test_a_kernel_with_signatures_was_compiled_before():
    names = {"numba": numba, "SCALE": 2.0}
    exec(
        "@numba.njit('void(float32[::1], float32[::1])')\ndef kernel(x, out):\n    out[0] = x[0] * SCALE\n",
        names,
    )
    compiled_name = run(names["kernel"])
    names["SCALE"] = 3.0
    assert compiled_name == 2
    assert content_of(names["kernel"]).fleeting
    assert not content_of(names["kernel"], anew=names["kernel"]).fleeting


def test_names_of_what_is_written_do_not_ask_what_was_compiled():
    made = by_a_number(2)
    made.helper(1.0)
    rebind(made, by_a_number(3))
    name = functools.partial(content_name, as_written=True)
    assert name(kernel_by(made.helper)) == name(kernel_by(by_a_number(3).helper))


@pytest.mark.thorough
def test_what_numba_has_kept_is_compiled_anew_if_it_uses_other_code(tmp_path):
    """Numba looks at the file of a function alone, not at what it calls."""

    def process(factor):
        source = "import numba\n@numba.njit(cache=True)\ndef helper(x): return inner(x)\nfrom other import inner\n"
        if not (tmp_path / "helpers.py").exists():
            (tmp_path / "helpers.py").write_text(source)
        (tmp_path / "other.py").write_text(f"import numba\n@numba.njit\ndef inner(x): return x * {factor}\n")
        return run_forked(
            f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(tmp_path)!r})\n"
            "import helpers, test_compiled_before as t\n"
            "kernel = t.kernel_by(helpers.helper)\n"
            "print(t.run(kernel), t.content_of(kernel).fleeting)\n"
        )

    assert process(2) == "2.0 False\n"
    assert process(3) == "3.0 False\n"


@pytest.mark.thorough
def test_what_numba_has_loaded_from_disk_gives_a_name_of_this_process(tmp_path):
    path = tmp_path / "helpers.py"
    path.write_text("import numba\nSCALE = 2\n@numba.njit(cache=True)\ndef helper(x): return x * SCALE\n")
    source = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport helpers, test_compiled_before as t\n"
        "helpers.helper(1.0); print(t.content_of(t.kernel_by(helpers.helper)).fleeting)"
    )
    assert [run_forked(source) for _ in range(2)] == ["False\n", "True\n"]


@pytest.mark.parametrize("value", [2, 3])
def test_what_an_overload_has_returned_is_used_again(value):
    made = by_an_overload(2)
    assert run(kernel_of_its_own(made.names["times"])) == 2
    made.names["VALUE"] = value
    assert content_of(kernel_by(made.names["times"])).fleeting == (value == 3)
    assert run(kernel_of_its_own(made.names["times"])) == 2
    made.names["VALUE"] = 2
    assert content_of(kernel_by(made.names["times"])).fleeting == (value == 3)  # one was compiled from each


@pytest.mark.thorough
def test_older_code_still_makes_values_when_its_function_was_compiled_again():
    """In a process of its own, twice: the second loads what the first has kept."""
    source = """
        import numba, test_compiled_before as t

        @numba.njit
        def shown(values):
            print(values)

        @numba.njit
        def outer(x):
            shown([x, x])

        @numba.njit
        def first(x, out):
            outer(x)
            for i in range(x.size):
                out[i] = x[i]

        @numba.njit
        def second(x, out):
            outer(x)
            for i in range(x.size):
                out[i] = x[i] + 1

        t.run(first)
        shown.recompile()
        print(t.run(second))
    """
    said = "[array([1.], dtype=float32), array([1.], dtype=float32)]\n"
    assert [run_forked(source) for _ in range(2)] == [said + said + "2.0\n"] * 2


TAUGHT = """
    import numba, sys
    from brainevent._content import content_name

    kernel = numba.njit(lambda x: x)
    def names():
        if "often" in sys.argv:
            content_name(kernel)

    def f(x): pass
    def g(x): pass
    numba.extending.overload_method(numba.types.Array, "first_of_a_test")(lambda a: lambda a: 1)
    names()
    numba.extending.type_callable(f)(lambda context: lambda x: x)
    names()
    numba.extending.lower_builtin(f, numba.types.Any)(lambda context, builder, signature, args: args[0])
    names()
    numba.extending.lower_builtin(len, numba.types.Integer)(lambda context, builder, signature, args: args[0])
    names()
    numba.extending.overload(f)(lambda x: lambda x: x)
    numba.extending.overload_attribute(numba.types.Array, "second_of_a_test")(lambda a: lambda a: 2)
    print(content_name(numba.njit(lambda x: f(x))))
"""


def test_names_do_not_depend_on_when_numba_was_taught_what():
    assert run_forked(TAUGHT, "once") == run_forked(TAUGHT, "often")


@pytest.mark.parametrize("called", [True, False])
def test_a_function_that_calls_itself_has_one_name(called):
    def make(value):
        @numba.njit
        def helper(n):
            return value if n <= 0 else helper(n - 1) + value

        return helper

    helper = make(2)
    if called:
        assert helper(1) == 4
    assert content_of(kernel_by(helper)) == content_of(kernel_by(make(2)))
    assert content_of(kernel_by(helper)) != content_of(kernel_by(make(3)))
    assert not content_of(kernel_by(helper)).fleeting


def test_nothing_is_imported_to_note_what_is_compiled(tmp_path, monkeypatch):
    """Numba's lock is held then, for which a thread may wait that is importing the same module."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "not_loaded_yet.py").write_text("VALUE = 1\n")
    body = {}
    exec("def helper(x):\n    import not_loaded_yet\n    return x", body)
    with (
        named.importing_nothing(),
        pytest.raises(OpaqueError, match="an import of not_loaded_yet"),
    ):
        list(named.imported(body["helper"]))
    assert "not_loaded_yet" not in sys.modules
    (module,) = named.imported(body["helper"])
    with named.importing_nothing():
        assert list(named.imported(body["helper"])) == [module]
