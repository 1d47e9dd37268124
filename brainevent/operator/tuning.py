# SPDX-License-Identifier: Apache-2.0
"""Measure all kernels of an operator for operands of these shapes, and store the fastest correct one."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import _jit_key, config
from .._compat import Tracer, is_tracing
from ..bench.tune import Candidate, Trial, TuneResult, try_all
from ..bench.tuning_store import TunedChoice, refuse_foreign, remember
from ..errors import KernelFallbackExhaustedError
from .bind import split
from .compare import Broken, assert_close
from .definition import Definition
from .entry import REFERENCE, KernelEntry
from .lowering import checked_kernel, select
from .tuning_lookup import CallTypes, content_of, device_of, lowering_platform, tuned_choice, versions_of
from .variants import free_variants, label

__all__ = ["autotune", "tune"]

SECONDS = 0.2  # for each kernel and variant
_measuring = threading.RLock()  # two at once would slow each other down
_tried: set[tuple[int, str, CallTypes]] = set()  # calls that `config.autotune` has already tried


def tune(
    definition: Definition,
    operands: Sequence[Any],
    outs: Sequence[Any],
    bound: dict[str, Any],
    *,
    platform: str | None,
    seconds: float,
) -> TuneResult:
    """Measure each kernel in each variant on these operands, and store the fastest; see `XLACustomKernel.tune`."""
    where = f"operator {definition.name!r}: tune"
    params, _ = split(bound)
    _check(operands, params, seconds, where)
    refuse_foreign()
    operands, platform = _placed(operands, platform, where)
    device = device_of(platform)
    if device is None:
        raise ValueError(
            f"{where}: the devices of {platform} are of several kinds, and a choice is for one kind; show JAX one kind"
        )
    call, table = CallTypes.of(operands, outs, params), definition.candidates(platform)
    if not table:
        select(definition, platform, None, {})  # raises, with advice
    with _measuring:
        trials = _trials(definition, platform, table, operands, tuple(outs), bound, seconds)
    best, variants = _best(trials, f"{where}: no kernel on {platform} gives right results")
    content, lasting = content_of(table)
    lasting = lasting and call == CallTypes.of(operands, outs, params)
    if not lasting:
        warnings.warn(
            f"{where}: its kernels or keyword arguments hold objects that cannot be identified by their content, so "
            "the choice is valid in this process only; use functions, numbers, strings and arrays in kernel generators",
            UserWarning,
            stacklevel=3,
        )
    identity = (definition.name, platform, device, call.shapes, versions_of(table.values()), content, call.params)
    remembered = remember(TunedChoice(*identity, trials[0].backend, variants, best), lasting=lasting)
    return TuneResult(definition.name, platform, device, call.shapes, tuple(trials), remembered)


def _best(trials: Sequence[Trial], otherwise: str) -> tuple[float, tuple[tuple[str, str], ...]]:
    """Return the least time of trials, the fastest first, and the best variant of each backend; raise if all failed."""
    if (seconds := trials[0].seconds) is None:
        failures = "\n".join(f"  {trial.backend} {trial.variant}: {trial.error}" for trial in trials)
        raise KernelFallbackExhaustedError(f"{otherwise}:\n{failures}")
    variants: dict[str, str] = {}
    for trial in trials:
        if trial.seconds is not None:
            variants.setdefault(trial.backend, trial.variant)
    return seconds, tuple(variants.items())


def _check(operands: Sequence[Any], params: Mapping[str, Any], seconds: Any, where: str) -> None:
    traced = any(isinstance(x, Tracer) for x in operands)
    if traced or is_tracing():
        what = "an operand is a traced value" if traced else "it is called while a function is traced"
        raise TypeError(f"{where}: {what}; call tune outside of jit, vmap and grad")
    if "backend" in params:
        raise TypeError(f"{where}: it tries all backends; leave backend= out")
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < math.inf:
        raise ValueError(f"{where}: seconds is {seconds!r}; pass a positive number, the time for each kernel")


def _placed(operands: Sequence[Any], platform: str | None, where: str) -> tuple[list[jax.Array], str]:
    """Return the operands on one device, and the platform for which kernels are lowered there."""
    if platform is not None:
        config.check_platform(platform)
        try:
            device = jax.local_devices(backend=platform)[0]
        except RuntimeError:
            raise ValueError(
                f"{where}: JAX has no device of platform {platform!r} here; pass another platform"
            ) from None
        return [jax.device_put(x, device) for x in operands], lowering_platform(device)
    arrays = [jnp.asarray(x) for x in operands]
    device = _device(arrays)
    if device is None:
        raise ValueError(f"{where}: the operands lie on several devices; put them on one")
    return arrays, lowering_platform(device)


def _device(operands: Sequence[Any]) -> jax.Device | None:
    """Return the device where a call would run; None if it would run on several."""
    devices = {device for x in operands if isinstance(x, jax.Array) and x.committed for device in x.devices()}
    if not devices:
        devices = set(jnp.zeros(()).devices())
    return devices.pop() if len(devices) == 1 else None


def _trials(
    definition: Definition,
    platform: str,
    table: Mapping[str, KernelEntry],
    operands: Sequence[Any],
    outs: tuple[Any, ...],
    bound: dict[str, Any],
    seconds: float,
) -> list[Trial]:
    params, carried = split(bound)

    def function(entry: KernelEntry, variant: Mapping[str, Any]) -> Any:
        return checked_kernel(definition, platform, entry, outs, {**variant, **params}, carried.structure)

    truth: list[Any] = []
    if definition.reference is not None:
        try:
            with jax.default_matmul_precision("highest"):  # so that the reference is rounded least
                truth.append(jax.jit(definition.reference.flat(outs=outs, **params))(*operands))
        except Exception as error:
            error.add_note(f"operator {definition.name!r}: tune: this is what its reference raises")
            raise

    def why_wrong(candidate: Candidate, results: Any) -> str | None:
        if not truth:
            truth.append(results)
        if candidate.backend == REFERENCE:  # right by definition, in any precision
            return None
        try:
            assert_close(results, truth[0])
        except Broken as wrong:
            return f"wrong results: {wrong}"
        return None

    default = select(definition, platform, None, {}).backend
    found = [
        Candidate(name, label(variant), function(entry, dict(variant)))
        for name, entry in sorted(table.items(), key=lambda item: item[0] != default)
        for variant in free_variants(entry.variants, params)
    ]
    return try_all(found, operands, why_wrong, seconds, definition.name)


def autotune(definition: Definition, operands: Sequence[Any], outs: Sequence[Any], bound: dict[str, Any]) -> None:
    """Tune before a call with new shapes, unless it is traced or its backend is already chosen."""
    if "backend" in bound or is_tracing() or any(isinstance(x, Tracer) for x in operands):
        return
    device = _device(operands)
    if device is None:
        return
    platform = lowering_platform(device)
    call = CallTypes.of([jnp.asarray(x) for x in operands], outs, split(bound)[0])
    table = definition.candidates(platform)
    known = (definition.serial, platform, call)
    if sum(len(entry.variants) or 1 for entry in table.values()) < 2 or _is_chosen(platform) or known in _tried:
        return
    if not _measuring.acquire(blocking=False):  # by another thread, which may wait for this call
        return
    try:
        if known not in _tried and tuned_choice(definition.name, platform, table, call) is None:
            _tried.add(known)
            tune(definition, operands, outs, bound, platform=None, seconds=SECONDS)
    except KernelFallbackExhaustedError:
        return  # the call itself raises the error
    except Exception as error:  # noqa: BLE001 - the call needs no tuning, and may well succeed
        warnings.warn(f"operator {definition.name!r}: autotune fails, so the call is not tuned: {error}", stacklevel=3)
    except BaseException:  # Ctrl-C: the next call tries again
        _tried.discard(known)
        raise
    finally:
        _measuring.release()


def _is_chosen(platform: str) -> bool:
    names = {platform} | ({"gpu"} if platform in ("cuda", "rocm") else set())
    return bool(names & (dict(_jit_key.block_choices()).keys() | {n for n in names if config.get_backend(n)}))
