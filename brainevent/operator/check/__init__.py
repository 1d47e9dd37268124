# SPDX-License-Identifier: Apache-2.0
"""Check the promises of an operator: each kernel, under each transformation, against the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import Tracer
from ...errors import did_you_mean
from ...typing import ArrayLike, PyTree, TypesLike
from ..bind import check_operands
from ..compare import described, to_host, tolerance_of
from ..custom_kernel import XLACustomKernel
from ..entry import REFERENCE, meant
from .recorded import recorded_calls
from .report import FAILED, CheckReport, CheckRow
from .run import PROMISES, TYPES, VALUES, check_backend, other_platforms
from .subject import Subject, platform_here

__all__ = ["PROMISES", "CheckReport", "check", "recorded_calls"]


def check(
    operator: Callable[..., PyTree],
    *args: ArrayLike,
    outs: TypesLike = None,
    backends: Sequence[str] | None = None,
    promises: Sequence[str] | None = None,
    samples: Sequence[Sequence[ArrayLike]] = (),
    tolerance: float | None = None,
    signed_zeros: bool = False,
    **kwargs: Any,
) -> CheckReport:
    """Check that every kernel of an operator that can run here keeps every promise.

    It is called as the operator is. Kernels are compared with the reference (`def_reference`), or else with one
    another. A broken kernel is a row of the report, not an error. Besides these operands, others are tried: zeros,
    negative numbers, NaN, duplicate indices, and sizes that the reference takes.

    Args:
        operator: An `XLACustomKernel`, or a `functools.partial` of one, for keywords named like those below.
        *args: The operands, arrays.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`; None for those of the reference.
        backends: The kernels to check, "reference" included; None for all.
        promises: The promises to check, by their names in the table, besides types and values; None for all.
        samples: Further tuples of operands of the same types, for the elements of batches. By default floats are scaled
            down, or moved around, as are booleans and unsorted integers, where the results still agree; sorted integers
            stay sorted, between the same ends.
        tolerance: The error that is allowed, relative to the largest value of a result; None for what suits the dtypes.
        signed_zeros: Whether `values` and `other values` compare the signs of zeros.
        **kwargs: The keyword arguments of the operator.

    Returns:
        The report, which prints as a table and has `raise_if_failed`.

    Raises:
        TypeError: If `operator` is not an operator, `outs` is missing and there is no reference, or it is called under
            `jax.jit`.
        ValueError: If a backend or a promise is unknown, or samples have other types than the operands.

    Examples:
        >>> import brainevent, jax.numpy as jnp, numba
        >>> @numba.njit
        ... def forgets_the_last(x, out):
        ...     for i in range(x.size - 1):
        ...         out[i] = 2 * x[i]
        >>> double = brainevent.XLACustomKernel("doc_check_double")
        >>> double.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(forgets_the_last, outs=outs))
        >>> _ = double.def_reference(lambda x: 2 * x)
        >>> report = brainevent.check(double, jnp.arange(4.0), promises=["jit", "outputs written"])
        >>> report.ok, report.failures[-1].promise
        (False, 'outputs written')
    """
    operator, kwargs = _unwrapped(operator, kwargs)
    operands, names = _checked_operands(operator, args), _checked_promises(promises)
    samples = _checked_samples(operands, samples)
    here = list(operator.definition.entries(platform_here()))
    chosen = _chosen(operator, here, backends, kwargs.pop("backend", None))
    rows = []
    try:
        outs = _outs(operator, operands, kwargs) if outs is None else outs
    except _ReferenceFailsError as error:
        rows, chosen = [CheckRow(REFERENCE, TYPES, FAILED, str(error))], []
    tolerance = _tolerance(operands, outs) if tolerance is None else tolerance
    subject = Subject(operator, "", outs, kwargs, tuple((x,) for x in to_host(operands)), None, tolerance, signed_zeros)
    for backend in chosen:
        rows += check_backend(subject, backend, [name for name in here if name != backend], samples, names)
    rows += other_platforms(operator) if backends is None else []
    return CheckReport(operator.name, jax.default_backend(), tuple(rows))


def _unwrapped(operator: Any, kwargs: dict[str, Any]) -> tuple[XLACustomKernel, dict[str, Any]]:
    if isinstance(operator, functools.partial) and not operator.args:
        operator, kwargs = operator.func, {**operator.keywords, **kwargs}
    if not isinstance(operator, XLACustomKernel):
        raise TypeError(
            f"check: expected an XLACustomKernel, found {type(operator).__name__}; pass the operator itself"
        )
    return operator, dict(kwargs)


def _checked_operands(operator: XLACustomKernel, args: Sequence[Any]) -> list[jax.Array]:
    check_operands(operator.name, args)
    for i, x in enumerate(args):
        if isinstance(x, Tracer):
            raise TypeError(f"check: operand {i} is a traced value; call check outside of jit, vmap and grad")
    operands = [jnp.asarray(x) for x in args]
    for i, x in enumerate(operands):
        if jnp.issubdtype(x.dtype, jax.dtypes.extended):
            raise TypeError(
                f"check: operand {i} is of dtype {x.dtype}, which holds no numbers; pass its data, as "
                "jax.random.key_data(key)"
            )
    return operands


def _checked_samples(operands: Sequence[jax.Array], samples: Sequence[Sequence[Any]]) -> list[list[jax.Array]]:
    checked = [[jnp.asarray(x) for x in row] for row in samples]
    wanted = [f"{x.dtype}{list(x.shape)}" for x in operands]
    for k, row in enumerate(checked):
        found = [f"{x.dtype}{list(x.shape)}" for x in row]
        if found != wanted:
            raise ValueError(f"check: samples[{k}] holds {', '.join(found)}; the operands are {', '.join(wanted)}")
    return checked


def _checked_promises(promises: Sequence[str] | None) -> set[str]:
    if isinstance(promises, str):
        raise TypeError(f"check: promises is the string {promises!r}; pass a list ([{promises!r}])")
    for name in promises or ():
        if name not in PROMISES:
            known = ", ".join(PROMISES)
            raise ValueError(f"check: unknown promise {name!r}{did_you_mean(name, PROMISES)}; known: {known}")
    return {TYPES, VALUES, *(PROMISES if promises is None else promises)}


def _chosen(
    operator: XLACustomKernel, here: list[str], backends: Sequence[str] | None, backend: str | None
) -> list[str]:
    """Return the backends to check; the reference only if it is the only one, or requested."""
    known = [*here, *([REFERENCE] if operator.definition.reference is not None and REFERENCE not in here else [])]
    if isinstance(backends, str):
        raise TypeError(f"check: backends is the string {backends!r}; pass a list ([{backends!r}])")
    wanted = [backend] if backend is not None else here or known if backends is None else list(backends)
    for name in wanted:
        if meant(name, known) is None:
            raise ValueError(
                f"check: operator {operator.name!r} has no backend {name!r} here{did_you_mean(name, known)}; "
                f"it has: {', '.join(known) or 'none'}"
            )
    return [meant(name, known) or name for name in wanted]


def _tolerance(operands: Sequence[Any], outs: Any) -> float | None:
    """Return the tolerance for operands of lower precision than results; None: that of each result."""
    finest = min((tolerance_of(out.dtype) for out in jax.tree.leaves(outs)), default=0)
    coarsest = max((tolerance_of(x.dtype) for x in operands), default=0)
    return coarsest if coarsest > finest > 0 else None


class _ReferenceFailsError(Exception):
    """The reference cannot give the types of the results."""


def _outs(operator: XLACustomKernel, operands: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    reference = operator.definition.reference
    if reference is None or reference.wants_outs:
        raise TypeError(
            f"check: operator {operator.name!r} has no reference that gives the types of its results; "
            "pass outs=jax.ShapeDtypeStruct(shape, dtype)"
        )
    try:
        return reference.infer_outs(operands, kwargs)
    except Exception as error:
        raise _ReferenceFailsError(f"the reference does not run: {described(error)}") from error
