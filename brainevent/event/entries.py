# SPDX-License-Identifier: Apache-2.0
"""What the docstrings of many functions of events say about the same arguments and errors."""

from __future__ import annotations

__all__ = [
    "BOUNDS",
    "CHECKED",
    "COMPRESSED",
    "COORDINATES",
    "EDGES",
    "EQUAL",
    "INDPTR",
    "MATRIX",
    "OF_DENSE",
    "OF_STORED",
]
__all__ += ["PRODUCTS", "RULES", "SPIKES", "STORED"]

MATRIX = {
    "shape": "The shape of the matrix, (m, k).",
    "transpose": "Whether to multiply with the transposed matrix, of shape (k, m).",
    "indices_sorted": "Whether the column indices of each row are known to ascend. True makes long rows faster on "
    "GPUs, and on CPUs where threads share a product.",
    "backend": "The name of the kernel to use; None for the default.",
    "weighted": "Whether an event counts as its value, as in a `WeightedArray`, and not as one.",
}
COMPRESSED = {
    "data": "Floating weights, (nse,), or one weight for all elements: a scalar or (1,).",
    "indices": "The column of each stored element, int32 or int64, (nse,).",
    "indptr": "Where each row begins among the stored elements, int32 or int64, (m + 1,).",
    **MATRIX,
}
COORDINATES = {
    "data": COMPRESSED["data"],
    "row": "The row of each stored element, int32 or int64, (nse,).",
    "col": "The column of each stored element, int32 or int64, (nse,).",
    **MATRIX,
}
EQUAL = {
    "weights": "Floating weights, (m, c), or one weight for all elements: a scalar or (1,).",
    "indices": "The columns of the c elements of each row, int32 or int64, (m, c).",
    **MATRIX,
}
STORED = {  # arguments of the classes of matrices
    "shape": MATRIX["shape"],
    "backend": "The name of the kernel for products; None for the default.",
    "buffers": "Further arrays that travel with the matrix, by name.",
    "check_structure": "Whether to validate the indices.",
    "precompute_weight_indices": "Whether to call `precompute_weight_indices` at once.",
    "indices_within": "Whether all indices are known to be in range, so that kernels need not test them; None to look.",
    "mat": "A dense matrix, (m, k), or a quantity of one.",
    "nse": "How many elements to store; needed under `jax.jit`.",
    "index_dtype": 'int32, int64, or "auto" for the smaller one that is large enough.',
}
BOUNDS = {
    "w_min": "Lower bound of all weights after the update: a number, or an array that broadcasts to the weights; None "
    "for none.",
    "w_max": "Upper bound of all weights after the update, like `w_min`. Where bounds cross, weights become `w_max`.",
    "after": "An array that must be computed first. Pass a product of the same weights, and XLA updates them in place.",
}
SPIKES = {
    "pre_spike": "Booleans, or real numbers whose nonzero values are spikes, (n_pre,).",
    "post_spike": "Booleans, or real numbers whose nonzero values are spikes, (n_post,).",
    "pre_trace": "The trace of each presynaptic neuron, with amplitude and sign, (n_pre,).",
    "post_trace": "The trace of each postsynaptic neuron, with amplitude and sign, (n_post,).",
    "shape": "The shape of the matrix, (n_pre, n_post).",
    "backend": MATRIX["backend"],
}
EDGES = {
    "rule": "`rule(state, pre, post, params)` returns the new state of one synapse, with the structure of the old one.",
    "edge_state": "A tree of arrays, (nse, ...), in the order of `data`; None for the data.",
}

CHECKED = {
    "ShapeError": "If the shapes do not fit each other.",
    "KernelFallbackExhaustedError": "If the platform has no kernel of the name `backend`.",
}
PRODUCTS = {
    "TypeError": "If the weights are not floating, indices are not integers, or the other operand is complex.",
    "ValueError": "If concrete indices are out of range.",
    "ShapeError": CHECKED["ShapeError"],
    "MathError": "If an operand has the wrong number of dimensions.",
    "KernelFallbackExhaustedError": CHECKED["KernelFallbackExhaustedError"],
}
INDPTR = {"ValueError": "If concrete indices are out of range, or `indptr` does not fit them."}
OF_STORED = {
    "TypeError": "If the weights are not floating, or indices are not integers.",
    "ValueError": "If concrete indices are out of range.",
    "ShapeError": "If the number of weights is neither one nor that of the elements.",
}
OF_DENSE = {
    "TypeError": "If the matrix is not floating.",
    "ValueError": "If it does not have two dimensions, or `nse` does not fit it.",
}
RULES = {"TypeError": "If the rule returns another structure.", "ShapeError": CHECKED["ShapeError"]}
