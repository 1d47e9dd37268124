# SPDX-License-Identifier: Apache-2.0
"""Mistakes in XLA's binary interface, and in launch plans."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_NATIVE = ("test_numba", "test_cpp", "test_transformations")
_NAMES = ("test_loaders", "test_cpp")
_PLANS = ("test_launch", "test_nvrtc", "test_numba_cuda", "test_warp")

MUTANTS = (
    Mutant(
        "system-macos-compiles",
        "_system.py",
        'if system == "Linux":',
        'if system in ("Linux", "Darwin"):',
        ("test_systems",),
    ),
    Mutant(
        "docs-shared-words-replace-own",
        "_documented.py",
        "_joined({**shared, **own})",
        "_joined({**own, **{name: entry for name, entry in shared.items() if entry}})",
        ("test_documented", "test_docstrings"),
    ),
    Mutant(
        "docs-star-arguments-come-last",
        "_documented.py",
        "*code.co_varnames[keywords:rest], *code.co_varnames[first:keywords]",
        "*code.co_varnames[first:keywords], *code.co_varnames[keywords:rest]",
        ("test_documented",),
    ),
    Mutant(
        "loops-forget-what-they-import",
        "backends/numba/loops.py",
        "        ahead += new\n",
        "",
        ("test_loops",),
    ),
    Mutant(
        "warnings-show-once-a-line",
        "_warned.py",
        "registry={},",
        "registry=_REGISTRY if '_REGISTRY' in globals() else globals().setdefault('_REGISTRY', {}),",
        ("test_network_replaced_weights",),
    ),
    Mutant(
        "system-reference-comes-last-elsewhere",
        "operator/lowering.py",
        "wishes = (preferred, _global_backend(platform), REFERENCE, *table)",
        "wishes = (preferred, _global_backend(platform), *table, REFERENCE)",
        ("test_systems",),
    ),
    Mutant(
        "system-network-is-built-anywhere",
        "network/description/network.py",
        'if why := why_not_compiled("a network"',
        'if why := False and why_not_compiled("a network"',
        ("test_systems",),
    ),
    Mutant(
        "call-shared-operands-move-in-outer-levels",
        "ffi/call.py",
        "steps = [s * level.size if m else s for s, m in zip(steps, level.mapped, strict=True)]",
        "steps = [s * level.size for s in steps]",
        _NATIVE,
    ),
    Mutant(
        "call-broadcast-all-of-one",
        "ffi/call.py",
        'extent = size if method == "broadcast_all" else 1',
        "extent = 1",
        _NATIVE,
    ),
    Mutant(
        "call-aliased-operand-shared-by-a-batch",
        "ffi/call.py",
        "moved[i], mapped[i] = jnp.broadcast_to(moved[i], (size, *moved[i].shape)), True",
        "pass",
        _NATIVE,
    ),
    Mutant(
        "frame-results-where-their-number-is",
        "ffi/frame.py",
        '"XLA_FFI_CallFrame.rets.rets": 112,',
        '"XLA_FFI_CallFrame.rets.rets": 104,',
        ("test_ffi", "test_numba"),
    ),
    Mutant(
        "arguments-two-inputs-for-one-output",
        "ffi/arguments.py",
        "if len(set(aliases.values())) < len(aliases):",
        "if len(set(aliases)) < len(aliases):",
        ("test_numba", "test_cpp"),
    ),
    Mutant(
        "scalars-lost-digits-pass",
        "ffi/scalars.py",
        "if lost or (not isinstance(value, float) and not _same(number, value)):",
        "if lost:",
        ("test_cpp", "test_loaders", "test_nvrtc"),
    ),
    Mutant(
        "targets-one-name-for-two-functions",
        "ffi/targets.py",
        "return known is not None and known.content == (content, function)",
        "return known is not None and known.content[0] == content",
        _NAMES,
    ),
    Mutant(
        "targets-replaced-without-being-asked",
        "ffi/targets.py",
        "if not replace or known.cell is None:",
        "if known.cell is None:",
        _NAMES,
    ),
    Mutant(
        "portable-other-layouts-are-read",
        "ffi/portable.py",
        'if header["layout"] != _LAYOUT:',
        "if False:",
        ("test_launch", "test_processes"),
    ),
    Mutant(
        "machine-code-of-another-compiler-is-found",
        "ffi/machine_code.py",
        "parts = _FORMAT, text, _OPTIMISED, *releases, machine.triple",
        "parts = _FORMAT, text, _OPTIMISED, machine.triple",
        ("test_machine_code",),
    ),
    Mutant(
        "plan-launches-together-are-apart",
        "ffi/launch/handler.ll",
        "%apart = icmp eq i64 %flag, 0",
        "%apart = icmp ne i64 %flag, 2",
        _PLANS,
    ),
    Mutant(
        "plan-empty-grids-are-launched",
        "ffi/launch/plan.py",
        "if not 1 <= size <= limit:",
        "if not 0 <= size <= limit:",
        _PLANS,
    ),
    Mutant(
        "configuration-last-block-missing",
        "ffi/launch/configuration.py",
        "grid = tuple(math.ceil(extent / size) for",
        "grid = tuple(extent // size for",
        _PLANS,
    ),
    Mutant(
        "target-slots-without-their-byte",
        "ffi/launch/target.py",
        "(offsets[s.parameter] + s.byte, s.buffer,",
        "(offsets[s.parameter], s.buffer,",
        _PLANS,
    ),
    Mutant(
        "target-names-an-output-by-its-buffer",
        "ffi/launch/target.py",
        'else f"output {slot.buffer - inputs}"',
        'else f"output {slot.buffer}"',
        _PLANS,
    ),
    Mutant(
        "driver-ptx-of-the-compilers-version",
        "ffi/launch/driver.py",
        "return _PTX_VERSION.sub(",
        "return ptx or _PTX_VERSION.sub(",
        ("test_launch",),
    ),
    Mutant(
        "driver-shared-memory-never-grows",
        "ffi/launch/driver.py",
        "if shared <= self._allowed.get(place, 0):",
        "if place in self._allowed:",
        _PLANS,
    ),
    Mutant(
        "host-any-processor-will-do",
        "ffi/launch/host.py",
        'missing = set(header["features"]) - set(_features()) if header["features"] else set()',
        "missing: set[str] = set()",
        ("test_launch", "test_warp", "test_processes"),
    ),
    Mutant(
        "host-kernels-loaded-without-a-lock",
        "ffi/launch/host.py",
        "with self._lock:",
        "if True:",
        ("test_launch", "test_warp"),
    ),
    Mutant(
        "handler-batch-index-not-divided",
        "ffi/elements.ll",
        "%rest_next = udiv i64 %rest, %size",
        "%rest_next = add i64 %rest, 0",
        _PLANS,
    ),
    Mutant(
        "handler-misaligned-buffers-are-passed",
        "ffi/launch/handler.ll",
        "%is_misaligned = icmp ne i64 %set, 0",
        "%is_misaligned = icmp ult i64 %set, 0",
        _PLANS,
    ),
)
