# SPDX-License-Identifier: Apache-2.0
"""A language is one value: whoever registers it has its method, its lines of `doctor`, its errors and its emulator."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from programs import run_program

import brainevent
from brainevent import XLACustomKernel, config, doctor, languages
from brainevent.backends import WRAPPERS
from brainevent.languages import LANGUAGES, Language
from brainevent.operator.kernel_methods import KernelMethods
from brainevent.operator.tuning_lookup import versions_of

X = jnp.arange(4.0)


def toy_method(self, kg, asdefault=False, *, variants=None, volume=1):
    """Register a toy kernel.

    Args:
        volume: How loud it is.
    """
    self.def_kernel("toy_loud", "gpu", kg, asdefault, variants=variants, language="toy_loud")


def emulated(generator):
    return lambda **kwargs: generator(**kwargs, emulated=True)


def toy(name, **more):
    return Language(name, "Toy", ("cpu",), lambda: "the package 'toy' is not installed; run: pip install toy", **more)


@pytest.fixture
def register():
    """Register languages for as long as the test runs."""
    before = dict(LANGUAGES)
    yield languages.register
    for name in set(LANGUAGES) - set(before):
        LANGUAGES.pop(name)
        delattr(KernelMethods, f"def_{name}_kernel")


def doubling(*, outs, emulated=False):
    return lambda x: [(3 if emulated else 2) * x]


def test_a_language_has_its_method(register, unique_name):
    register(toy("toy_new", returns="what `toy_kernel` returns"))
    operator = XLACustomKernel(unique_name("grown"))
    operator.def_toy_new_kernel(doubling)
    np.testing.assert_array_equal(operator(X, outs=[X])[0], 2 * X)
    method = XLACustomKernel.def_toy_new_kernel
    assert list(inspect.signature(method).parameters) == ["self", "kg", "asdefault", "variants"]
    assert method.__doc__.startswith("Register a Toy kernel for the CPU: a generator that returns what `toy_kernel`")
    assert "kg: The kernel generator." in method.__doc__
    with pytest.raises(brainevent.RegistrationTypeError, match="the kernel generator must be callable, found int"):
        operator.def_toy_new_kernel(3)


def test_a_method_of_its_own(register, unique_name):
    register(toy("toy_loud", method=toy_method))
    operator = XLACustomKernel(unique_name("grown"))
    operator.def_toy_loud_kernel(doubling, volume=3)
    assert operator.available_backends("gpu") == ["toy_loud"]
    assert "volume: How loud it is." in XLACustomKernel.def_toy_loud_kernel.__doc__
    assert "kg: The kernel generator." in XLACustomKernel.def_toy_loud_kernel.__doc__


def test_errors_name_what_is_missing(register, unique_name):
    register(toy("toy_new"))
    operator = XLACustomKernel(unique_name("grown"))
    with pytest.raises(brainevent.RegistrationValueError, match="unknown language 'toy_ne'; did you mean 'toy_new'"):
        operator.def_kernel("a", "cpu", doubling, language="toy_ne")

    def generator(*, outs):
        import toy_package_that_is_not_there  # noqa: F401

    operator.def_toy_new_kernel(generator)
    with pytest.raises(brainevent.KernelNotAvailableError, match="run: pip install toy"):
        operator(X, outs=[X])
    report = brainevent.check(operator, X, outs=[X])
    assert [(row.status, row.detail) for row in report.rows] == [
        ("skipped", "the package 'toy' is not installed; run: pip install toy")
    ]


def test_doctor_has_its_lines(register):
    register(
        toy(
            "toy_new",
            extra=True,
            packages=("ml_dtypes",),
            emulator="Toy's twin",
            notes=lambda: [("toy mode", "loud")],
            trial=lambda: lambda x: x + 1,
        )
    )
    sections = {
        section.title: {line.label: line for line in section.lines} for section in doctor.report(attempt=True).sections
    }
    line = sections["Kernel languages"]["toy_new"]
    assert line.text == "not here: the package 'toy' is not installed; run: pip install toy"
    assert not line.fault  # it need not be there
    assert sections["Versions"]["ml_dtypes"].text
    assert sections["Emulation on the CPU"]["toy_new"].text.endswith("by Toy's twin")
    assert sections["Emulation on the CPU"]["toy mode"].text == "loud"
    assert sections["Trial"]["toy_new"].text.startswith("compiled and loaded in ")


def test_its_versions_are_part_of_what_is_tuned(register, unique_name):
    register(toy("toy_new", packages=("numpy", "no-such-package")))
    operator = XLACustomKernel(unique_name("grown"))
    operator.def_toy_new_kernel(doubling)
    assert f"numpy {np.__version__}" in versions_of(operator.definition.kernels["cpu"].values())
    operator.def_kernel("mine", "cpu", doubling)
    assert "numpy" not in versions_of([operator.definition.kernels["cpu"]["mine"]])


def test_its_emulator_runs_its_kernels(register, unique_name, monkeypatch):
    told = []
    register(
        Language("toy_new", "Toy", ("gpu",), lambda: None, emulator="Toy's twin", emulated=emulated,
                 when_emulating=told.append)
    )  # fmt: skip
    operator = XLACustomKernel(unique_name("grown"))
    operator.def_toy_new_kernel(doubling)
    with pytest.raises(
        brainevent.KernelFallbackExhaustedError, match=r"config.emulate\(\) to run its gpu kernel 'toy_new'"
    ):
        operator(X, outs=[X])
    config.emulate()
    try:
        np.testing.assert_array_equal(operator(X, outs=[X])[0], 3 * X)
    finally:
        config.emulate(False)
    assert told == [True, False]


def test_what_is_refused(register):
    with pytest.raises(brainevent.RegistrationTypeError, match="expected a Language, found str"):
        register("toy")
    with pytest.raises(brainevent.RegistrationValueError, match="'toy-new' cannot be part of def_<name>_kernel"):
        register(toy("toy-new"))
    with pytest.raises(brainevent.RegistrationValueError, match="there is a language 'numba' already"):
        register(toy("numba"))
    register(LANGUAGES["numba"])  # the same again


def test_libraries_without_a_version_are_read_by_content():
    """The name of a kernel changes with the code of such a module; a version stands for that of others."""
    source = """
        import sys, types
        from brainevent import languages
        from brainevent._content import content_name

        def made(name, number, version):
            module = types.ModuleType(name)
            exec(f"def f(x): return x + {number}", module.__dict__)
            if version: module.__version__ = version
            sys.modules[name] = module
            return lambda x: module.f(x)

        libraries = ("toy_True", "toy_False")
        languages.register(languages.Language("toy", "Toy", ("cpu",), lambda: None, libraries=libraries))
        for versions in (("", ""), ("1", "1"), ("1", "2")):
            print(*{content_name(made(f"toy_{bool(version)}", k, version)) for k, version in enumerate(versions)})
    """
    without, same, different = (line.split() for line in run_program(source).splitlines())
    assert (len(without), len(same), len(different)) == (2, 1, 2)


def test_public_names_of_languages_are_those_of_the_package():
    assert set(WRAPPERS) <= set(brainevent.__all__)
    assert {"numba_kernel", "cuda_kernel", "warp_kernel", "load_cpp_inline"} <= set(WRAPPERS)
