# SPDX-License-Identifier: Apache-2.0
"""All operators: a table of descriptions; each gives an operator with its kernels, rules and benchmark data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from ..operator.custom_kernel import XLACustomKernel
from .coo.format import COORDINATES
from .csr.format import CSR
from .dense.format import DENSE
from .description import Description, Format, Language, Law
from .drawn.format import DRAWN
from .examples import EXAMPLES
from .fixed.format import FIXED
from .kernels.cuda import CUDA
from .kernels.numba import NUMBA
from .kernels.one_product import DOT, OTHERS
from .laws.arrivals import ARRIVALS
from .laws.copies import ADDED, COPIED
from .laws.deliveries import COLLECTED, DELIVERIES, LAID, LAID_COLLECTED
from .laws.products import EVENT_PAIRS, EVENTS, NUMBERS, PAIRS, VALUED, VALUED_PAIRS
from .laws.updates import UPDATES
from .laws.values import VALUES
from .laws.whole import WHOLE

__all__ = ["LANGUAGES", "TABLE", "add_language", "apply", "call_by", "define", "descriptions"]

LANGUAGES: list[Language] = [NUMBA, CUDA, *OTHERS, *DOT]

_KNOWN_AS = {  # operators whose name is not that of their function
    Description(FIXED, EVENTS): "ell_binary_matvec",
    Description(CSR, UPDATES): "binary_csr_plast",
    Description(CSR, UPDATES, indexed=True, post=True): "csr2csc_on_post",
    Description(FIXED, UPDATES): "fcn_plasticity_row",
    Description(DENSE, UPDATES): "dense_on_pre",
    Description(DENSE, UPDATES, post=True): "dense_on_post",
}

TABLE: dict[Description, XLACustomKernel] = {}


class _Apply:
    """Calls operators by their descriptions."""

    def __call__(self, of: Description, *operands: Any, **keywords: Any) -> Any:
        """Call an operator; if none is defined, the format's own function in `jax.numpy`, or the reference."""
        if (operator := TABLE.get(of)) is not None:
            return operator(*operands, **keywords)
        keywords.pop("backend", None)
        if (own := of.format.own(of)) is not None:
            return own(*operands, **keywords)
        keywords.pop("outs", None)
        return of.reference()(*operands, **keywords)

    def operator(self, of: Description) -> XLACustomKernel | None:
        """Return an operator, or None if none is defined."""
        return TABLE.get(of)


apply = _Apply()


def define(of: Description) -> XLACustomKernel:
    """Make the operator of a description, and enter it into the table."""
    law, name = of.law, _KNOWN_AS.get(of, of.name)
    doc = f"{law.doc(of)}\n\n{EXAMPLES.get(name, '')}".rstrip() or None
    operator = TABLE[of] = XLACustomKernel(name, doc)
    for language in LANGUAGES:
        _add_kernel(language, of)
    operator.def_reference(of.reference())
    operator.def_tags(*law.tags(of))
    operator.def_sharding_rule(**law.cut(of))
    law.relate(operator, of, apply)
    operator.def_call(law.call(operator, of))
    operator.def_benchmark_data(lambda *, platform: law.data(of))
    return operator


def add_language(language: Language) -> None:
    """Add the kernels of a language to all operators."""
    LANGUAGES.append(language)
    for of in TABLE:
        _add_kernel(language, of)


def _add_kernel(language: Language, of: Description) -> None:
    if (generator := language.make(of)) is not None:
        variants, written_in = language.variants(of), language.language
        TABLE[of].def_kernel(language.backend, language.platform, generator, variants=variants, language=written_in)


def call_by(functions: Mapping[Description, Callable[..., Any]]) -> None:
    """Say which functions users call; operators are measured and shown by them."""
    for of, function in functions.items():
        TABLE[of].def_call(function)


def descriptions(form: Format, *laws: Law, indexed: bool = False, columns: bool = True) -> list[Description]:
    """Return the descriptions of a format with some laws: for vectors and, with `columns`, for matrices."""
    ways = list(itertools.product((False, True)[: 1 + indexed], (False, True)[: 1 + columns]))
    return [Description(form, law, columns=many, indexed=by) for law in laws for by, many in ways]


for _of in (
    *descriptions(COORDINATES, NUMBERS, EVENTS, VALUED),
    *descriptions(CSR, NUMBERS, EVENTS, VALUED, indexed=True),
    *descriptions(CSR, PAIRS, EVENT_PAIRS, VALUED_PAIRS, indexed=True, columns=False),
    *descriptions(CSR, COPIED, ADDED, columns=False),
    *(
        of
        for form in (COORDINATES, FIXED)
        for of in descriptions(form, PAIRS, EVENT_PAIRS, VALUED_PAIRS, columns=False)
    ),
    *descriptions(DENSE, EVENTS, VALUED),
    *descriptions(DENSE, EVENT_PAIRS, VALUED_PAIRS, columns=False),
    *descriptions(FIXED, NUMBERS, EVENTS, VALUED),
    *descriptions(CSR, VALUES),
    *descriptions(CSR, UPDATES, columns=False),
    Description(CSR, UPDATES, indexed=True, post=True),
    *descriptions(FIXED, UPDATES, columns=False),
    *descriptions(DENSE, UPDATES, columns=False),
    Description(DENSE, UPDATES, post=True),
    *descriptions(CSR, DELIVERIES, COLLECTED, indexed=True, columns=False),
    *descriptions(CSR, LAID, LAID_COLLECTED, columns=False),
    *descriptions(FIXED, DELIVERIES, COLLECTED, columns=False),
    Description(DENSE, ARRIVALS),
    *(of for form in DRAWN for of in descriptions(form, NUMBERS, EVENTS)),
    *(Description(form, WHOLE) for form in DRAWN),
):
    define(_of)
