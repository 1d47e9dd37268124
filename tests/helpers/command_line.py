# SPDX-License-Identifier: Apache-2.0
"""Run the command `brainevent` on operators that a test defines in a module of its own."""

import sys
import textwrap
from pathlib import Path

from brainevent.cli import main
from brainevent.operator import custom_kernel, registry

KERNELS = """
import jax, jax.numpy as jnp
import brainevent
from brainevent import BenchmarkConfig


def twice(*, outs, **kwargs):
    return lambda x: x + x


def thrice(*, outs, **kwargs):
    return lambda x: x + x + x


def slow(*, outs, **kwargs):
    return lambda x: 2 * jax.lax.fori_loop(0, 20_000, lambda i, y: jnp.cos(y) * 0 + x, x)


def broken(*, outs, **kwargs):
    raise RuntimeError("this kernel cannot be built")


def data(*, platform):
    return [BenchmarkConfig(f"n={n}", (jnp.ones(n),), data_kwargs={"n": n}) for n in (4, 12)]


def operator(name, *tags, data=data, **kernels):
    op = brainevent.XLACustomKernel(name)
    for backend, kernel in kernels.items():
        op.def_kernel(backend, "cpu", kernel)
    op.def_reference(lambda x: 2 * x)
    op.def_tags(*tags)
    op.def_call(op)
    if data is not None:
        op.def_benchmark_data(data)
    return op
"""


class CommandLine:
    """A folder with modules, an empty registry, and the command."""

    def __init__(self, folder: Path, capsys, monkeypatch):
        self.folder, self.capsys = folder, capsys
        monkeypatch.chdir(folder)
        monkeypatch.setattr("sys.path", [*sys.path])
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr("sys.dont_write_bytecode", True)
        monkeypatch.setattr(custom_kernel, "_newest", {})
        monkeypatch.setattr(registry, "_to_load", [])
        monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(folder / "cache"))

    def module(self, name, text):
        """Write a module that defines operators with the help of what is above, in place of all that there were."""
        custom_kernel._newest.clear()
        (self.folder / f"{name}.py").write_text(f"{KERNELS}\n{textwrap.dedent(text)}")
        sys.modules.pop(name, None)

    def __call__(self, *words):
        """Return the exit status, stdout and stderr of a command."""
        status = main([str(word) for word in words])
        return status, *self.capsys.readouterr()
