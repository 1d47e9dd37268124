# SPDX-License-Identifier: Apache-2.0
"""Lower JAX's scan: as one native call if that is chosen and possible, else as JAX does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from .._compat import for_export, inner_jaxprs, lower_alone, lowering_platforms, may_partition, x64_enabled
from .._warned import warn_each_time
from ..scalar.form import WIDE_INTEGERS
from .cost import why_not_faster, why_too_short
from .plan import Plan, plan_of
from .values import UnfitError

__all__ = ["call_of", "check_written", "lower", "planned"]


def planned(params: Mapping[str, Any], platform: str) -> Plan:
    """Return the loop of a scan as a plan; raise `UnfitError` if it cannot be one call, or would not be faster."""
    closed = params["jaxpr"]
    sizes = (
        params["length"],
        *(n for aval in (*closed.in_avals, *closed.out_avals) for n in getattr(aval, "shape", ())),
    )
    if not all(isinstance(n, int) for n in sizes):
        raise UnfitError("a dimension without a number, in a program that is exported for any sizes")
    if (
        too_short := why_too_short(params["length"])
    ) is not None:  # most loops of JAX's own: nothing is traced for them
        raise UnfitError(too_short)
    plan = plan_of(params, platform)
    if not plan.outs:
        raise UnfitError("it computes nothing")
    if (why_not := _why_not_faster(plan, platform)) is not None:
        raise UnfitError(why_not)
    return plan


def _why_not_faster(plan: Plan, platform: str) -> str | None:
    if platform == "cpu":
        return why_not_faster(plan)
    from .gpu.cost import why_not_faster as on_gpu

    return on_gpu(plan)


def check_written(plan: Plan, platform: str) -> None:
    """Raise `UnfitError` for what shows only when the text of a plan is written."""
    if platform != "cpu":
        from .gpu.device import Gpu
        from .gpu.program import written_for

        written_for(plan, Gpu())


def call_of(plan: Plan, types: Sequence[Any], platform: str) -> Callable[..., list[Any]]:
    """Return the loop as a function of constants, carries and scanned arrays; its results have these types."""
    if platform == "cpu":
        from .on_numba import call_of as on_cpu

        return on_cpu(plan, types)
    from .gpu.program import call_of as on_gpu

    return on_gpu(plan, types)


def lower(default: Callable[..., Any], ctx: Any, /, *operands: Any, **params: Any) -> Any:
    """Lower a scan on the CPU or on a GPU; `default` is what JAX does."""
    (platform,) = lowering_platforms(ctx)
    if not may_partition(ctx):
        try:
            # A program may be traced with numbers of 64 bits, and lowered where these are off.
            with jax.enable_x64(x64_enabled() or _is_wide(params["jaxpr"].jaxpr)):
                plan = planned(params, platform)
                if plan.is_foreign and for_export(ctx):
                    raise UnfitError("a kernel in C++, in an exported program")
                return lower_alone(call_of(plan, params["jaxpr"].out_avals, platform), ctx, *operands)
        except UnfitError:
            pass
        except Exception as error:  # noqa: BLE001 - the program is right, and JAX compiles it
            said = str(error).strip().partition("\n")[0]
            what = f"config.fuse_loops: a loop of {params['length']} steps is compiled by JAX instead"
            warn_each_time(f"{what}: {type(error).__name__}: {said}", RuntimeWarning)
    return default(ctx, *operands, **params)


def _is_wide(jaxpr: Any) -> bool:
    """Say whether a jaxpr has numbers of 64 bits."""
    made = (var for eqn in jaxpr.eqns for var in eqn.outvars)
    dtypes = {str(getattr(var.aval, "dtype", "")) for var in (*jaxpr.constvars, *jaxpr.invars, *made)}
    return not dtypes.isdisjoint(("float64", *WIDE_INTEGERS)) or any(map(_is_wide, inner_jaxprs(jaxpr)))
