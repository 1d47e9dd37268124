# SPDX-License-Identifier: Apache-2.0
"""A user's rule in CUDA C++, applied to the synapses of neurons that spiked, in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...backends.nvrtc import cuda_kernel
from ...scalar.cuda_text import NVRTC_OPTIONS, TYPES, cuda_text
from .rule_form import NativeRule

__all__ = ["kernel", "kernel_text"]

_THREADS = 128
_MOST_BLOCKS = 4096


def kernel(native: NativeRule, outs: list[Any], aliases: Mapping[int, int], *, post: bool) -> Callable[..., Any]:
    """Return a JAX function that returns the new leaves of the state."""

    def run(active: Any, *operands: Any) -> Any:
        call = cuda_kernel(
            kernel_text(native, post=post),
            "apply_rule",
            outs,
            grid=min(_MOST_BLOCKS, max(1, active.size)),
            block=_THREADS,
            types=dict(zip("IPNQ"[: 3 + post], (x.dtype for x in operands), strict=False)),
            options=NVRTC_OPTIONS,
            input_output_aliases=aliases,
        )
        return call(active, *operands, rows=active.size, stored=operands[0].size)

    return run


def kernel_text(native: NativeRule, *, post: bool) -> str:
    """Return the text of the kernel: a block of threads takes the synapses of a neuron that spiked."""
    dtypes = iter(TYPES[name.dtype] for name in native.form.inputs)

    def parts(letter: str, sizes: Sequence[int], place: str) -> tuple[list[str], list[str]]:
        """Return the parameters of leaves, and their elements at a place."""
        parameters, elements = [], []
        for leaf, size in enumerate(sizes):
            number = max(size, 1)
            kinds = [next(dtypes) for _ in range(number)]
            parameters.append(f"const {kinds[0]}* {letter}{leaf}")
            begin = f"{place} * {number}ll + " if place else ""
            elements += [f"{letter}{leaf}[{begin}{k}]" for k in range(number)]
        return parameters, elements

    own, others = ("j", "i") if post else ("i", "j")
    groups = [parts("s", native.state, "k"), parts("p", native.pre, own)]
    groups += [parts("q", native.other, others), parts("r", native.rest, "")]
    results = [parameter[len("const ") :].replace("* s", "* o") for parameter in groups[0][0]]
    olds = [f"o{element[1:]}" for element in groups[0][1]]
    given = [*olds, *(element for _, elements in groups[1:] for element in elements)]
    news = [f"n{place}" for place in range(len(olds))]
    kinds = [TYPES[name.dtype] for name in native.form.inputs[: len(olds)]]
    declared = " ".join(f"{kind} {new};" for kind, new in zip(kinds, news, strict=True))
    called = f"n0 = be_rule({', '.join(given)});" if len(news) == 1 else f"be_rule({', '.join(given + news)});"
    stored = " ".join(f"{old} = {new};" for old, new in zip(olds, news, strict=True))
    parameters = ["const bool* active", "const I* indices", "const P* indptr", "const N* others"]
    parameters += [*(["const Q* places"] if post else []), *(name for names, _ in groups for name in names), *results]
    return f"""{cuda_text([native.form])}
extern "C" __global__ void apply_rule({", ".join(parameters)}, long long rows, long long stored) {{
    for (long long i = blockIdx.x; i < rows; i += gridDim.x) {{
        if (!active[i]) continue;
        const long long first = indptr[i], last = indptr[i + 1];
        const long long begin = first < 0 ? 0 : first, end = last < stored ? last : stored;
        for (long long at = begin + threadIdx.x; at < end; at += blockDim.x) {{
            const long long j = indices[at], k = {"places[at]" if post else "at"};
            if (j < 0 || j >= others[0] || k < 0 || k >= stored) continue;
            {declared}
            {called}
            {stored}
        }}
    }}
}}
"""
