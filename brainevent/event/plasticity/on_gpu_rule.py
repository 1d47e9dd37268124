# SPDX-License-Identifier: Apache-2.0
"""A user's rule in CUDA C++, applied to the synapses of neurons that spiked, in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...backends.nvrtc.kernel import cuda_kernel
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
    leaves, kinds = native.leaves(post=post), [TYPES[name.dtype] for name in native.form.inputs]
    parameters = ["const bool* active", "const I* indices", "const P* indptr", "const N* others"]
    parameters += ["const Q* places"] if post else []
    elements: list[str] = []
    results: list[str] = []
    for number, (name, place, size) in enumerate(leaves):
        kind, width = kinds[len(elements)], max(size, 1)
        parameters.append(f"const {kind}* {name}")
        changed = number < len(native.state)
        array = f"o{name[1:]}" if changed else name
        results += [f"{kind}* {array}"] if changed else []
        begin = f"{place} * {width}ll + " if place else ""
        elements += [f"{array}[{begin}{k}]" for k in range(width)]
    count = len(native.form.outputs)
    news = [f"n{place}" for place in range(count)]
    declared = " ".join(f"{kind} {new};" for kind, new in zip(kinds, news, strict=False))
    called = f"n0 = be_rule({', '.join(elements)});" if count == 1 else f"be_rule({', '.join(elements + news)});"
    stored = " ".join(f"{old} = {new};" for old, new in zip(elements, news, strict=False))
    return f"""{cuda_text([native.form])}
extern "C" __global__ void apply_rule({", ".join(parameters + results)}, long long rows, long long stored) {{
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
