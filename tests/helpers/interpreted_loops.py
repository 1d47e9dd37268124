# SPDX-License-Identifier: Apache-2.0
"""Run the text of a fused loop without Numba: its forms by the interpreter, its loops as Python."""

import functools
import math

import ml_dtypes
import numpy as np

from brainevent.loops.copies import Helper
from brainevent.loops.plan import plan_of
from brainevent.loops.text import text_of
from brainevent.scalar.interpret import interpret

__all__ = ["interpreted_scan"]


def interpreted_scan(params, operands):
    """Return the results of a scan with these parameters, and its plan."""
    plan = plan_of(params, "cpu")
    written = text_of(plan)
    scope = {
        "np": np,
        "part": _part,
        "unknown": int,
        "in_large_pages": lambda array: None,
        "flush_floats": lambda: None,
        "restore_floats": lambda before: None,
    }
    scope |= {"bits_of_float": lambda x: x.view(np.uint32).astype(np.int64)}
    scope |= {"pulse_memory": lambda: None, "next_pulse": lambda memory, step, steps: step + 1}
    scope |= {"half": _Half}
    scope |= {"float_of_bits": lambda bits: bits.view(np.float32)}
    scope |= {f"be_{form.name}": functools.partial(_called, form) for form in written.forms}
    for name, helper in written.helpers.items():
        if isinstance(helper, Helper):
            exec(helper.text(name), scope)
        else:
            scope[name] = helper
    exec(written.text, scope)
    given = []
    for array, x in zip(plan.inputs, [*operands, *plan.closed], strict=True):
        shape = ((plan.length,) if array.home == "row" else ()) + ((array.size,) if array.shape else ())
        given.append(np.array(x).reshape(shape))
    outs = {}
    for i, array in plan.outs.items():
        shape = ((plan.length,) if i in plan.rows else ()) + ((array.size,) if array.shape else ())
        outs[i] = _unset(shape, array.dtype)
    memory = [_unset((array.size,) if array.shape else (), array.dtype) for array in written.memory]
    with np.errstate(all="ignore"):
        scope["fused_loop"](*given, *outs.values(), *memory)
    results = []
    for i, aval in enumerate(params["jaxpr"].out_avals):
        shape = ((plan.length,) if i in plan.rows else ()) + tuple(aval.shape)
        results.append(np.asarray(operands[plan.kept[i]] if i in plan.kept else outs[i]).reshape(shape))
    return results, plan


class _Half:
    """Floats of 16 bits, as the text reads and writes them."""

    from_float16 = from_bfloat16 = staticmethod(np.float32)
    to_float16, to_bfloat16 = staticmethod(np.float16), staticmethod(ml_dtypes.bfloat16)


def _unset(shape, dtype):
    """Return memory as XLA gives it: with what nobody should read."""
    return np.full(shape, True if dtype == "bool" else 77, dtype)


def _part(array, begin, shape):
    return array.reshape(-1)[begin : begin + math.prod(shape)].reshape(shape)


def _called(form, *arguments):
    results = tuple(each[0] for each in interpret(form, [np.asarray(a).reshape(1) for a in arguments]))
    return results[0] if len(results) == 1 else results
