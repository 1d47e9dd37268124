# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the languages of kernels."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_NUMBA = ("test_numba", "test_transformations")
_CUDA = ("test_numba_cuda", "test_emulation", "test_language_kernels")
_NVRTC = ("test_nvrtc",)
_WARP = ("test_warp", "test_warp_errors", "test_language_kernels")
_ADJOINT = ("test_warp_adjoint", "test_warp_errors")
_CPP = ("test_loaders", "test_cpp", "test_builds")

MUTANTS = (
    Mutant(
        "generators-seeds-not-mixed",
        "compat/lfsr.py",
        "    return word\n",
        "    return seed\n",
        ("test_lfsr",),
    ),
    Mutant(
        "generators-range-without-its-end",
        "compat/lfsr.py",
        "- low.astype(jnp.uint32) + jnp.uint32(1)",
        "- low.astype(jnp.uint32)",
        ("test_lfsr",),
    ),
    Mutant(
        "numba-name-without-the-results",
        "backends/numba/__init__.py",
        '[*map(str, operands), "->", *map(str, outs)]',
        "[*map(str, operands)]",
        _NUMBA,
    ),
    Mutant(
        "numba-strides-column-major",
        "backends/numba/internals.py",
        "for extent in reversed(shape[1:]):",
        "for extent in shape[1:]:",
        _NUMBA,
    ),
    Mutant(
        "numba-error-of-an-element-lost",
        "backends/numba/handler.py",
        "builder.ret(error)",
        "builder.ret(I64(0))",
        _NUMBA,
    ),
    Mutant(
        "numba-half-always-rounded-up",
        "backends/numba/half.py",
        "odd = (rest >> np.uint32(13)) & np.uint32(1)",
        "odd = np.uint32(1)",
        _NUMBA,
    ),
    Mutant(
        "numba-number-of-threads-stays-changed",
        "backends/numba/runtime.py",
        "%unlimited = icmp eq i64 %before, 0",
        "%unlimited = icmp ne i64 %before, 0",
        ("test_numba_parallel", "test_numba", "test_event_threads"),
    ),
    Mutant(
        "numba-parallel-kernels-run-side-by-side",
        "backends/numba/runtime.py",
        'numba.threading_layer() == "workqueue"',
        'numba.threading_layer() == "work_queue"',
        ("test_numba_parallel",),
    ),
    Mutant(
        "numba-exported-without-its-threads",
        "backends/numba/kept.py",
        "if runtime.ENTER_PARALLEL in wanted or threads_in(wanted):",
        "if False:",
        ("test_numba_parallel", "test_processes"),
    ),
    Mutant(
        "numba-any-of-sees-the-first-byte",
        "backends/numba/memory.py",
        "word = ir.IntType(8 * count.literal_value)",
        "word = ir.IntType(8)",
        ("test_numba", "test_event_fixed", "test_event_csr"),
    ),
    Mutant(
        "numba-cuda-strides-column-major",
        "backends/numba_cuda/record.py",
        "np.cumprod([self.dtype.itemsize, *reversed(self.shape)])",
        "np.cumprod([self.dtype.itemsize, *self.shape])",
        _CUDA,
    ),
    Mutant(
        "numba-cuda-part-of-a-part-begins-anew",
        "backends/numba_cuda/record.py",
        "self.shift + start * self.strides[0])",
        "start * self.strides[0])",
        _CUDA,
    ),
    Mutant(
        "numba-cuda-address-in-the-wrong-word",
        "backends/numba_cuda/native.py",
        "Slot(parameter=len(parameters) + 4,",
        "Slot(parameter=len(parameters) + 3,",
        _CUDA,
    ),
    Mutant(
        "numba-cuda-simulated-threads-turned",
        "backends/numba_cuda/simulated.py",
        "itertools.product(range(z), range(y), range(x))",
        "itertools.product(range(x), range(y), range(z))",
        _CUDA,
    ),
    Mutant(
        "numba-cuda-simulated-inputs-writeable",
        "backends/numba_cuda/simulated.py",
        "array.flags.writeable = writeable",
        "array.flags.writeable = True",
        _CUDA,
    ),
    Mutant(
        "numba-cuda-elements-of-one-level",
        "backends/numba_cuda/callback.py",
        "rest //= row[0]",
        "rest -= 0",
        _CUDA,
    ),
    Mutant(
        "nvrtc-zeroes-what-was-started",
        "backends/nvrtc/__init__.py",
        "zeroed = [o for o in range(len(outs)) if o not in started]",
        "zeroed = list(range(len(outs)))",
        _NVRTC,
    ),
    Mutant(
        "nvrtc-key-without-the-options",
        "backends/nvrtc/compiler.py",
        "unit.text, *unit.expressions, *options]",
        "unit.text, *unit.expressions]",
        _NVRTC,
    ),
    Mutant(
        "nvrtc-shortest-name-wins",
        "backends/nvrtc/translation_unit.py",
        "name = max(ends, key=len, default=None)",
        "name = min(ends, key=len, default=None)",
        _NVRTC,
    ),
    Mutant(
        "nvrtc-vectors-are-not-aligned",
        "backends/nvrtc/cpp_types.py",
        "alignment = min(16, count * jnp.dtype(element).itemsize) if count in (2, 4) else 1",
        "alignment = 1",
        _NVRTC,
    ),
    Mutant(
        "warp-strides-column-major",
        "backends/warp/arguments.py",
        "for extent in reversed(array.shape[1:]):",
        "for extent in array.shape[1:]:",
        _WARP,
    ),
    Mutant(
        "warp-empty-launch-leaves-results",
        "backends/warp/call.py",
        "if name in call.zeroed or 0 in call.dims]",
        "if name in call.zeroed]",
        _WARP,
    ),
    Mutant(
        "warp-key-without-the-types",
        "backends/warp/compiled.py",
        "key = (tuple(map(_described, types)), platform,",
        "key = (len(types), platform,",
        _WARP,
    ),
    Mutant(
        "warp-last-blocks-missing",
        "backends/warp/plan.py",
        "return (x, y, -(-blocks // (x * y)))",
        "return (x, y, blocks // (x * y))",
        _WARP,
    ),
    Mutant(
        "warp-started-outputs-are-differentiated-twice",
        "backends/warp/adjoint.py",
        "if _is_float(x.dtype) and i not in starts.values()]",
        "if _is_float(x.dtype)]",
        _ADJOINT,
    ),
    Mutant(
        "warp-read-after-write-passes",
        "backends/warp/patterns.py",
        "if array in self._written:",
        "if array in self._function.changed:",
        _ADJOINT,
    ),
    Mutant(
        "source-results-not-counted",
        "backends/source/module.py",
        "if (operands, outs) != wanted:",
        "if operands != wanted[0]:",
        _CPP,
    ),
    Mutant(
        "source-replaced-under-the-old-name",
        "backends/source/module.py",
        "if force and replace else key",
        "if False else key",
        ("test_library",),
    ),
    Mutant(
        "source-byte-order-mark-is-compiled",
        "backends/source/texts.py",
        'text.removeprefix("\\ufeff")',
        "text",
        ("test_loaders",),
    ),
    Mutant(
        "source-half-attributes-as-floats",
        "backends/source/module.py",
        '"uint16" if kind in HALVES else kind',
        "HALVES.get(kind, kind)",
        _CPP,
    ),
)
