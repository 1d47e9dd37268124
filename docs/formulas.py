# SPDX-License-Identifier: Apache-2.0
"""The formula of an operator of the library, from its format and its law."""

from brainevent.event.description import Description
from brainevent.event.laws.copies import COPIED
from brainevent.event.laws.products import EVENTS, NUMBERS, VALUED
from brainevent.event.table import TABLE
from brainevent.operator.custom_kernel import XLACustomKernel

__all__ = ["description_of", "formula"]

# The matrix A that the arrays of a format stand for: elements at one place add up.
_MATRICES = {
    "csr": ("A[i, indices[e]] += data[{place}]", "for indptr[i] ≤ e < indptr[i + 1]"),
    "coo": ("A[row[e], col[e]] += data[e]", "for every stored element e"),
    "fcn": ("A[i, indices[i, e]] += weights[i, e]", "for every e of row i"),
    "dense": ("A = weights", ""),
    "jits": ("A[i, j] = weight or 0", "drawn from the seed, nonzero with probability prob"),
    "jitn": ("A[i, j] = w_loc + w_scale · ξ or 0", "drawn from the seed, nonzero with probability prob, ξ ~ N(0, 1)"),
    "jitu": ("A[i, j] = w_low + (w_high - w_low) · ξ or 0", "drawn, nonzero with probability prob, ξ ~ U(0, 1)"),
}
_TERMS = {  # what an element of the matrix and one of x make
    NUMBERS: "A[i, j] · {x}",
    EVENTS: "A[i, j] · [{x} ≠ 0]",
    VALUED: "A[i, j] · {x}, over the j with {x} ≠ 0",
}
# What happens at a stored element e, which is in row i and column j.
_AT_ELEMENTS = {
    "pairs": ("out[e] = y[i] · x[j]", "for every stored element e, in row i and column j"),
    "values": ("out[e] = w[e] · y[i]", "for every stored element e, in row i and column j; y[j] if transpose"),
    "deliveries": (
        "ring[(t + delay[e]) mod slots, j] += w[e]",
        "for every stored element e in column j of a row that spiked",
    ),
    "arrivals": ("out = ring[t mod slots]; ring[t mod slots] = 0", ""),
}


def description_of(operator: XLACustomKernel) -> Description | None:
    """Return the format and the law that an operator is made of; None for one that is not of the table."""
    return next((of for of, known in TABLE.items() if known is operator), None)


def formula(of: Description, x: str = "x") -> str:
    """Return the formula as lines of text, with the name of what a matrix is multiplied with; empty if it has none."""
    kind = of.law.kind
    if kind == "product":
        lines = _product(of, x)
    elif kind == "whole":
        lines = [("out = A", "the transpose if transpose"), _MATRICES[of.format.name]]
    elif kind == "updates":
        spiking, other = ("j", "i") if of.post else ("i", "j")
        spikes, trace = ("post_spike", "pre_trace") if of.post else ("pre_spike", "post_trace")
        lines = [
            (f"w[e] += {trace}[{other}]", f"for every synapse e from neuron i to j with {spikes}[{spiking}] ≠ 0"),
            ("w[e] = min(max(w[e], w_min), w_max)", "for every synapse"),
        ]
    elif kind == "copies":
        gradient = ("out[e] = Σₖ y[k, j]", "for every stored element e in column j, over the k with rows[k] = i")
        lines = [("out[k, :] = A[rows[k], :]", "") if of.law is COPIED else gradient, _matrix(of)]
    else:
        lines = [_AT_ELEMENTS[kind]] if kind in _AT_ELEMENTS else []
    wide = max((len(left) for left, _ in lines), default=0)
    return "\n".join(f"{left:<{wide}}   {right}".rstrip() for left, right in lines)


def _product(of: Description, x: str) -> list[tuple[str, str]]:
    out, x = ("out[i, c]", f"{x}[j, c]") if of.columns else ("out[i]", f"{x}[j]")
    return [(f"{out} = Σⱼ {_TERMS[of.law].format(x=x)}", "with Aᵀ in place of A if transpose"), _matrix(of)]


def _matrix(of: Description) -> tuple[str, str]:
    left, right = _MATRICES[of.format.name]
    return left.format(place="perm[e]" if of.indexed else "e"), right
