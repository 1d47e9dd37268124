# SPDX-License-Identifier: Apache-2.0
"""Windows and macOS: the package can be imported, references work, and all else is refused in one sentence."""

from programs import run_program

from brainevent import _system

ELSEWHERE = """
from pretend_system import pretend

pretend("Windows")

import jax
import jax.numpy as jnp

import brainevent as be


def refused(call):
    try:
        print("NOT REFUSED", call())
    except be.BrainEventError as error:
        print(f"{type(error).__name__}: {error}")


spikes = be.BinaryArray(jnp.array([True, False, True]))
matrix = be.CSR.fromdense(jnp.array([[0.0, 2.0], [1.0, 0.0], [3.0, 4.0]]))
print(spikes @ matrix, jax.grad(lambda data: (spikes @ matrix.with_data(data)).sum())(matrix.data))

twice = be.XLACustomKernel("twice")
twice.def_numba_kernel(lambda *, outs: be.numba_kernel(None, outs=outs))
refused(lambda: twice(jnp.ones(2), outs=jnp.ones(2)))
twice.def_reference(lambda x: 2 * x)
print(twice(jnp.ones(2)), jax.jit(jax.vmap(twice))(jnp.ones((1, 2))))
refused(lambda: twice(jnp.ones(2), backend="numba"))
refused(lambda: be.load_cpp_inline("twice", ""))
refused(lambda: twice.tune(jnp.ones(2)))
refused(lambda: be.print_diagnostics())
refused(be.Network([be.models.izhikevich("cells", 3)], dt=0.1).build)
print(be.check(twice, jnp.ones(2)).rows[0].detail)

from brainevent.__main__ import main

try:
    main()
except SystemExit as end:
    print(end)

pretend("Darwin")
print(spikes @ matrix, twice(jnp.ones(3)))
refused(lambda: twice(jnp.ones(2), backend="numba"))
refused(lambda: be.cuda_kernel("twice", "", outs=jnp.ones(2)))
"""


def test_references_work_elsewhere_and_the_rest_is_one_sentence():
    need, instead = "needs Linux, and this is Windows:", "WSL 2"
    use = "use the reference (backend='reference'), or run Python in"
    reference = f"{need} {use} {instead}"
    on_macos = f"needs Linux, and this is macOS: {use} a Linux container"
    without = "give it a jax.numpy implementation with def_reference(fn)"
    assert run_program(ELSEWHERE).splitlines() == [
        "[3. 6.] [1. 0. 1. 1.]",
        f"KernelNotAvailableError: operator 'twice': a kernel in Numba {need} {without}, or run Python in {instead}",
        "[2. 2.] [[2. 2.]]",
        f"KernelNotAvailableError: operator 'twice': a kernel in Numba {reference}",
        f"KernelNotAvailableError: a compiled kernel {reference}",
        f"KernelNotAvailableError: a compiled kernel {reference}",
        f"KernelNotAvailableError: a compiled kernel {reference}",
        f"NetworkError: build: a network {need} write its loop with operators, or run Python in {instead}",
        f"a kernel in Numba {reference}",
        f"brainevent: error: the command brainevent {need} use the package in Python, or run Python in {instead}",
        "[3. 6.] [2. 2. 2.]",
        f"KernelNotAvailableError: operator 'twice': a kernel in Numba {on_macos}",
        f"KernelNotAvailableError: a compiled kernel {on_macos}",
    ]


def test_on_linux_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(_system.platform, "system", lambda: "Linux")
    assert _system.why_not_compiled() is None


def test_cores_are_counted_without_an_affinity(monkeypatch):
    assert _system.cores() >= 1
    monkeypatch.delattr(_system.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(_system.os, "cpu_count", lambda: None)
    assert _system.cores() == 1
