# SPDX-License-Identifier: Apache-2.0
"""Registry, settings, errors, a light import, and threads that do everything at once."""

import dataclasses
import functools
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import XLACustomKernel, config
from brainevent.event.library import OPERATORS

F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
X = jnp.arange(3.0)


def times(value):
    return lambda *, outs: lambda x: value * x


def in_threads(work, count=8):
    """Run `work(i)` in threads that start at once; return what went wrong."""
    barrier, wrong = threading.Barrier(count), []

    def run(i):
        barrier.wait(30)
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    return wrong


def run_python(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- registry ------------------------------------------------------------------------------------------------------


def test_the_registry_knows_all_operators_and_is_a_copy(unique_name):
    op = XLACustomKernel(unique_name("known"))
    registry = brainevent.get_registry()
    assert registry[op.name] is op
    registry.clear()
    assert brainevent.get_registry()[op.name] is op
    names = brainevent.get_all_primitive_names()
    assert op.name in names
    assert names == sorted(brainevent.get_registry())


def test_operators_are_found_by_all_of_the_tags(unique_name):
    tags = [unique_name(t) for t in ("csr", "mv", "mm")]
    first, second = XLACustomKernel(unique_name("tagged")), XLACustomKernel(unique_name("tagged"))
    first.def_tags(tags[0], tags[1])
    second.def_tags(tags[0], tags[2])
    find = brainevent.get_primitives_by_tags
    assert find({tags[0]}) == {first.name: first, second.name: second}
    assert find({tags[0], tags[1]}) == {first.name: first}
    assert find({tags[1], tags[2]}) == {}
    assert set(find(set())) == set(brainevent.get_registry())
    with pytest.raises(TypeError, match=rf"tags is the string '{tags[0]}'; pass a set"):
        find(tags[0])


def test_a_name_taken_twice_warns_and_the_newest_wins(unique_name):
    name = unique_name("twice")
    old = XLACustomKernel(name)
    old.def_kernel("jnp", "cpu", times(2))
    with pytest.warns(UserWarning, match=f"an operator named '{name}' is already registered"):
        new = XLACustomKernel(name)
    new.def_kernel("jnp", "cpu", times(3))
    assert brainevent.get_registry()[name] is new
    np.testing.assert_array_equal(old(X, outs=F32), 2 * X)  # Both go on as they are,
    np.testing.assert_array_equal(new(X, outs=F32), 3 * X)
    np.testing.assert_array_equal(jax.jit(lambda x: old(x, outs=F32) + new(x, outs=F32))(X), 5 * X)  # in one program.


# ---- settings ------------------------------------------------------------------------------------------------------


def test_backend_settings():
    assert config.get_backend("cpu") is None
    config.set_backend("cpu", "numba")
    brainevent.set_backend("gpu", "warp")
    assert (config.get_backend("cpu"), config.get_backend("gpu"), config.get_backend("tpu")) == ("numba", "warp", None)
    config.set_backend("cpu", None)
    config.set_backend("cpu", None)
    assert (config.get_backend("cpu"), config.get_backend("gpu")) == (None, "warp")
    config.clear_backends()
    assert config.get_backend("gpu") is None
    assert brainevent.set_backend is config.set_backend
    assert brainevent.use_backend is config.use_backend


def test_the_other_settings():
    assert (config.get_numba_parallel(), config.get_numba_num_threads()) == (False, None)
    config.set_numba_parallel()
    assert config.get_numba_parallel() is True
    config.set_numba_parallel(False)
    assert config.get_numba_parallel() is False
    assert config.get_lfsr_algorithm() == "lfsr88"
    for algorithm in ("lfsr113", "lfsr128", "lfsr88"):
        config.set_lfsr_algorithm(algorithm)
        assert config.get_lfsr_algorithm() == algorithm


@pytest.mark.thorough
def test_the_number_of_threads_is_numba_s():
    program = (
        "import numba, brainevent; c = brainevent.config; c.set_numba_parallel(True, num_threads=1);"
        "print(c.get_numba_num_threads(), numba.get_num_threads(), c.get_numba_parallel())"
    )
    assert run_python(program) == "1 1 True"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda: config.set_backend("cpu", ""), ValueError, "empty string"),
        (lambda: config.set_backend("cpu", "  "), ValueError, "empty string"),
        (lambda: config.set_backend("cpu", 3), TypeError, "backend must be a string such as 'numba', found int"),
        (lambda: config.set_backend("cqu", "numba"), ValueError, "unknown platform 'cqu'; did you mean 'cpu'"),
        (lambda: config.set_backend(None, "numba"), ValueError, "unknown platform None"),
        (
            lambda: config.set_lfsr_algorithm("lfsr99"),
            ValueError,
            "Invalid LFSR algorithm 'lfsr99'; did you mean 'lfsr",
        ),
        (lambda: config.set_numba_parallel(True, num_threads=10**6), ValueError, "number of threads"),
        (lambda: config.set_numba_parallel(True, num_threads=0), ValueError, "number of threads"),
    ],
)
def test_invalid_settings_are_refused_and_change_nothing(change, error, words):
    config.set_backend("cpu", "numba")
    with pytest.raises(error, match=words):
        change()
    assert config.get_backend("cpu") == "numba"
    assert (config.get_numba_parallel(), config.get_numba_num_threads()) == (False, None)
    assert config.get_lfsr_algorithm() == "lfsr88"


def test_the_settings_are_kept_where_existing_programs_look():
    config.set_backend("cpu", "numba")
    assert config._global_backends == {"cpu": "numba"}
    assert (config._numba_parallel, config._numba_num_threads, config._lfsr_algorithm) == (False, None, "lfsr88")


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("BrainEventError", (Exception,)),
        ("MathError", (brainevent.BrainEventError,)),
        ("UnsupportedOperationError", (brainevent.BrainEventError,)),
        ("BenchmarkDataFnNotProvidedError", (brainevent.BrainEventError,)),
        ("KernelError", (brainevent.BrainEventError,)),
        ("KernelNotAvailableError", (brainevent.KernelError,)),
        ("KernelExecutionError", (brainevent.KernelError,)),
        ("CUDANotInstalledError", (brainevent.KernelError,)),
        ("KernelFallbackExhaustedError", (brainevent.KernelError,)),
        ("KernelCompilationError", (brainevent.KernelError,)),
        ("KernelOutputError", (brainevent.KernelCompilationError, ValueError)),
        ("KernelArgumentError", (brainevent.KernelCompilationError, TypeError)),
        ("CheckFailedError", (brainevent.BrainEventError, AssertionError)),
    ],
)
def test_errors_are_public_and_have_their_bases(name, bases):
    error = getattr(brainevent, name)
    assert error.__name__ == name
    assert name in brainevent.__all__
    for base in bases:
        assert issubclass(error, base)


# ---- the package ---------------------------------------------------------------------------------------------------


def test_all_public_names_exist():
    assert sorted(brainevent.__all__) == sorted(set(brainevent.__all__))
    missing = [name for name in brainevent.__all__ if not hasattr(brainevent, name)]
    assert missing == []
    assert ".".join(map(str, brainevent.__version_info__)) == brainevent.__version__
    with pytest.raises(AttributeError, match="module 'brainevent' has no attribute 'no_such_name'"):
        brainevent.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", ["", "config", "errors", "half"])
def test_the_public_names_are_all_that_is_listed(name):
    module = getattr(brainevent, name) if name else brainevent
    assert dir(module) == sorted(module.__all__)
    assert not {"Any", "TYPE_CHECKING", "annotations", "numba"} & set(dir(module))


def test_the_import_is_light():
    heavy = ("numba", "warp", "triton", "matplotlib", "scipy", "jax.experimental.pallas")
    program = (
        "import sys, jax; before = set(sys.modules); import brainevent;"
        f"print(sorted(n for n in set(sys.modules) - before if n.startswith({heavy!r})))"
    )
    assert run_python(program) == "[]"


@pytest.mark.thorough
def test_an_operator_without_numba_kernels_never_loads_numba():
    program = (
        "import sys, jax, jax.numpy as jnp, brainevent; op = brainevent.XLACustomKernel('light');"
        "op.def_numba_kernel(lambda *, outs: 1/0); op.def_reference(lambda x: 2 * x);"
        "x = op(jnp.ones(3), backend='reference'); print(float(x.sum()), 'numba' in sys.modules)"
    )
    assert run_python(program) == "6.0 False"


# ---- threads -------------------------------------------------------------------------------------------------------


def test_threads_that_register_and_call_at_once(unique_name):
    shared = XLACustomKernel(unique_name("shared"))
    shared.def_kernel("jnp", "cpu", times(2))
    jitted = jax.jit(lambda x: shared(x, outs=F32))
    names = [unique_name("threaded") for _ in range(8)]

    def work(i):
        op = XLACustomKernel(names[i])
        op.def_tags(names[i])
        op.def_kernel("jnp", "cpu", times(i))
        op.def_jvp_rule2(lambda t, x, **_: i * t)
        for k in range(5):
            np.testing.assert_array_equal(op(X + k, outs=F32), i * (X + k))
            shared.def_kernel(f"extra_{i}_{k}", "cpu", times(100))  # Not the default: nobody need notice.
            np.testing.assert_array_equal(jitted(X + k), 2 * (X + k))
            np.testing.assert_array_equal(jax.grad(lambda x: op(x, outs=F32).sum())(X), np.full(3, i))

    assert in_threads(work) == []
    assert set(names) <= set(brainevent.get_all_primitive_names())
    assert len(shared.available_backends("cpu")) == 41
    assert shared.defaults == {"cpu": "jnp"}


def test_threads_that_choose_while_others_call(unique_name):
    """A call runs one of the kernels that were chosen, whole; the last choice is what counts afterwards."""
    backends = [unique_name(b) for b in ("one", "two", "three")]
    op = XLACustomKernel(unique_name("chosen"))
    for i, backend in enumerate(backends):
        op.def_kernel(backend, "cpu", times(i + 1))
    jitted = jax.jit(lambda x: op(x, outs=F32))

    def work(i):
        for k in range(10):
            if i < 3:
                op.set_default("cpu", backends[(i + k) % 3])
            else:
                found = np.asarray(jitted(X + 1))
                assert any(np.array_equal(found, f * (X + 1)) for f in (1, 2, 3))

    assert in_threads(work) == []
    for i, backend in enumerate(backends):
        op.set_default("cpu", backend)
        np.testing.assert_array_equal(jitted(X), (i + 1) * X)


def test_threads_that_make_one_name_leave_one_operator(unique_name):
    name = unique_name("contended")
    made = []

    def work(i):
        op = XLACustomKernel(name)
        op.def_kernel("jnp", "cpu", times(i))
        made.append(op)
        np.testing.assert_array_equal(op(X, outs=F32), i * X)

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert in_threads(work, 4) == []
    assert brainevent.get_registry()[name] in made


# ---- nothing half-registered ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fail",
    [
        lambda op: op.def_kernel("new", "nowhere", times(3), asdefault=True),
        lambda op: op.def_kernel("new", "cpu", None, asdefault=True),
        lambda op: op.def_kernel("  ", "cpu", times(3), asdefault=True),
        lambda op: op.def_pallas_kernel("cpu", times(3), asdefault=True),
        lambda op: op.set_default("cpu", "new"),
        lambda op: op.set_default("gpu", "new"),
        lambda op: op.def_sharding_rule("i j"),
        lambda op: op.def_reference(None),
        lambda op: op.def_jvp_rule2("rule"),
        lambda op: config.set_backend("nowhere", "new"),
    ],
)
def test_nothing_is_half_registered_after_a_failure(unique_name, fail):
    op = XLACustomKernel(unique_name("whole"))
    op.def_kernel("jnp", "cpu", times(2))
    traces = []

    @jax.jit
    def f(x):
        traces.append(x)
        return op(x, outs=F32)

    np.testing.assert_array_equal(f(X), 2 * X)
    state = lambda: (op.defaults, op.available_backends("cpu"), op.available_backends("gpu"), dict(op.definition.rules))
    before, registry = state(), brainevent.get_all_primitive_names()
    with pytest.raises((TypeError, ValueError)):
        fail(op)
    assert state() == before
    assert brainevent.get_all_primitive_names() == registry
    np.testing.assert_array_equal(f(X), 2 * X)
    assert len(traces) == 1


def test_a_kernel_that_failed_is_tried_again(unique_name):
    """A failure is remembered nowhere: mend the kernel, or what it needs, and call again."""
    op = XLACustomKernel(unique_name("mended"))
    broken = [True]

    def generator(*, outs):
        if broken:
            raise OSError("not yet")
        return lambda x: 2 * x

    op.def_kernel("jnp", "cpu", generator)
    f = jax.jit(lambda x: op(x, outs=F32))
    for call, x in ((f, X), (lambda x: op(x, outs=F32), X), (jax.vmap(lambda x: op(x, outs=F32)), X[None])):
        broken[:] = [True]
        with pytest.raises(brainevent.KernelCompilationError, match="not yet"):
            call(x)
        broken.clear()
        np.testing.assert_array_equal(call(x), 2 * x)
        op.def_kernel("jnp", "cpu", lambda **kwargs: generator(**kwargs))  # So that the next call builds it again.


@pytest.mark.parametrize(
    ("value", "expected"),
    [("8.6", ["8.6"]), ("86", ["8.6"]), ("sm_86", ["8.6"]), ("compute_90a", ["9.0a"]), ("8.0, 100", ["8.0", "10.0"])],
)
def test_spellings_of_a_compute_capability(value, expected):
    config.set_compute_capability(value)
    assert config.get_compute_capability() == expected
    config.set_compute_capability(None)
    assert config.get_compute_capability() is None
    with pytest.raises(ValueError, match="'sm_' is not a compute capability"):
        config.set_compute_capability("sm_")


# ---- the language of a kernel --------------------------------------------------------------------------------------


def doubling(*, outs):
    return lambda x: [2 * x]


def test_a_kernel_has_a_language_apart_from_its_backend(unique_name):
    operator = XLACustomKernel(unique_name("spoken"))
    operator.def_kernel("mine", "cpu", doubling)
    operator.def_kernel("quick", "cpu", doubling, language="numba")
    operator.def_cuda_raw_kernel(doubling)
    operator.def_cuda_raw_kernel(doubling, platform="cpu", language="nvrtc")
    table = operator.definition.kernels
    assert {name: entry.language for name, entry in table["cpu"].items()} == {
        "mine": "mine", "quick": "numba", "cuda_raw": "nvrtc",
    }  # fmt: skip
    assert table["gpu"]["cuda_raw"].language == "cuda_raw"
    entry = brainevent.KernelEntry("warp", "gpu", doubling)
    assert (entry.language, dataclasses.replace(entry, backend="other").language) == ("warp", "warp")


@pytest.mark.parametrize(
    ("language", "error", "words"),
    [
        (1, brainevent.errors.RegistrationTypeError, "backend 'a': language must be a string, found int"),
        ("numbaa", brainevent.errors.RegistrationValueError, "language 'numbaa'; did you mean 'numba'.; known: numba,"),
    ],
)
def test_invalid_languages_are_refused(unique_name, language, error, words):
    operator = XLACustomKernel(unique_name("spoken"))
    with pytest.raises(error, match=words):
        operator.def_kernel("a", "cpu", doubling, language=language)
    assert operator.available_backends("cpu") == []


def test_what_is_missing_is_said_of_the_language_and_not_of_the_backend(unique_name, monkeypatch):
    """NVRTC needs no nvcc: a kernel that it compiles is not excused by a missing nvcc."""
    here = {"cuda_raw": "nvcc is not found here", "nvrtc": "the package 'cuda' is not installed"}
    for name in list(here):
        row = brainevent.languages.Language(name, name, ("cpu",), functools.partial(here.get, name))
        monkeypatch.setitem(brainevent.languages.LANGUAGES, name, row)

    def generator(*, outs):
        raise ImportError("no module named cuda")

    operator = XLACustomKernel(unique_name("spoken"))
    operator.def_cuda_raw_kernel(generator, platform="cpu", language="nvrtc")
    out = jax.ShapeDtypeStruct((3,), jnp.float32)
    with pytest.raises(brainevent.KernelNotAvailableError, match="the package 'cuda' is not installed") as caught:
        operator(jnp.ones(3), outs=out)
    assert "nvcc" not in str(caught.value)
    report = brainevent.check(operator, jnp.ones(3), outs=out)
    assert [row.detail for row in report.rows] == [here["nvrtc"]]
    here["nvrtc"] = None
    report = brainevent.check(operator, jnp.ones(3), outs=out)
    assert [row.status for row in report.rows] == ["failed", "skipped"]


def test_kernels_of_the_library_that_nvrtc_compiles_say_so():
    found = {
        name: entry.language
        for name, operator in OPERATORS.items()
        for backend, entry in operator.definition.kernels.get("gpu", {}).items()
        if backend == "cuda_raw"
    }
    assert len(found) > 10
    assert set(found.values()) == {"nvrtc"}
