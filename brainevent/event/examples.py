# SPDX-License-Identifier: Apache-2.0
"""Docstrings of operators without a public function, after the first sentence: operands, and an example."""

__all__ = ["EXAMPLES"]

EXAMPLES = {
    "csr_per_element": """
Both are matrices with the same number of columns, which are summed over, as in gradients of weights.

>>> import jax.numpy as jnp, brainevent
>>> operator = brainevent.get_registry()["csr_per_element"]
>>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
>>> operator(indices, indptr, jnp.array([[1.0], [10.0]]), jnp.array([[1.0], [2.0], [3.0]]))
[Array([ 1.,  3., 30.], dtype=float32)]
""",
    "binary_csr_per_element": """
Both are matrices with the same number of columns, which are summed over. One holds events, as in the gradient of
weights of a product with events: `of_rows`, or with `transpose=False` `of_columns`.

>>> import jax.numpy as jnp, brainevent
>>> operator = brainevent.get_registry()["binary_csr_per_element"]
>>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
>>> operator(indices, indptr, jnp.array([[False], [True]]), jnp.array([[1.0], [jnp.nan], [3.0]]))
[Array([0., 0., 3.], dtype=float32)]
""",
    "csr_slice_rows_grad": """
This is the gradient of the weights of a matrix from which rows were taken.

>>> import jax.numpy as jnp, brainevent
>>> operator = brainevent.get_registry()["csr_slice_rows_grad"]
>>> indices, indptr, chosen = jnp.array([0, 2, 2]), jnp.array([0, 2, 3]), jnp.array([1, 1])
>>> operator(indices, indptr, chosen, jnp.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]), shape=(2, 3))
[Array([ 0.,  0., 33.], dtype=float32)]
""",
    "binary_csr_plast": """
Operands: weights, indices, indptr, a spike for each row, a trace for each column, and `after`.

>>> import jax.numpy as jnp, brainevent
>>> structure = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
>>> spikes, trace = jnp.array([True, False]), jnp.array([1.0, 2.0, 3.0])
>>> brainevent.update_csr_on_binary_pre_p(jnp.zeros(3), *structure, spikes, trace, jnp.zeros(0))
[Array([1., 3., 0.], dtype=float32)]
""",
    "csr2csc_on_post": """
Operands: weights, rows and pointers of the matrix cut into columns, where each of its elements has its weight, a
trace for each row, a spike for each column, and `after`.

>>> import jax.numpy as jnp, brainevent
>>> pointers, rows, places = brainevent.csr_to_csc_index(jnp.array([0, 2, 3]), jnp.array([0, 2, 2]), shape=(2, 3))
>>> trace, spikes = jnp.array([1.0, 2.0]), jnp.array([False, False, True])
>>> operator = brainevent.update_csr_on_binary_post_p
>>> operator(jnp.zeros(3), rows, pointers, places, trace, spikes, jnp.zeros(0))
[Array([0., 1., 2.], dtype=float32)]
""",
    "fcn_plasticity_row": """
Operands: weights and indices (rows, number), a spike for each row, a trace for each column, and `after`.

>>> import jax.numpy as jnp, brainevent
>>> spikes, trace = jnp.array([True, False]), jnp.array([1.0, 2.0, 3.0])
>>> indices = jnp.array([[0, 2], [1, 2]])
>>> brainevent.fcn_plasticity_row_p(jnp.zeros((2, 2)), indices, spikes, trace, jnp.zeros(0))
[Array([[1., 3.],
       [0., 0.]], dtype=float32)]
""",
    "dense_on_pre": """
Operands: weights, a spike for each row, the trace, and `after`.

>>> import jax.numpy as jnp, brainevent
>>> spikes, trace = jnp.array([True, False]), jnp.array([1.0, 2.0])
>>> brainevent.update_dense_on_binary_pre_p(jnp.zeros((2, 2)), spikes, trace, jnp.zeros(0))
[Array([[1., 2.],
       [0., 0.]], dtype=float32)]
""",
    "dense_on_post": """
Operands: weights, the trace, a spike for each column, and `after`.

>>> import jax.numpy as jnp, brainevent
>>> trace, spikes = jnp.array([1.0, 2.0]), jnp.array([True, False])
>>> brainevent.update_dense_on_binary_post_p(jnp.zeros((2, 2)), trace, spikes, jnp.zeros(0))
[Array([[1., 0.],
       [2., 0.]], dtype=float32)]
""",
    "csrmv_dt2t": """
Operands: y, w, and the indices and row pointers of a matrix in compressed sparse rows.

>>> import jax.numpy as jnp, brainevent
>>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
>>> y, w = jnp.array([10.0, 100.0]), jnp.array([1.0, 2.0, 4.0])
>>> brainevent.csrmv_dt2t_p(y, w, indices, indptr, shape=(2, 3), transpose=False)
[Array([ 10.,  20., 400.], dtype=float32)]
""",
    "csrmm_dt2t": """
Here y and w are matrices with a row for each entry of a batch, or with one row for all.

>>> import jax.numpy as jnp, brainevent
>>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
>>> y, w = jnp.array([[10.0, 100.0], [1.0, 2.0]]), jnp.array([[1.0, 2.0, 4.0]])
>>> brainevent.csrmm_dt2t_p(y, w, indices, indptr, shape=(2, 3), transpose=False)
[Array([[ 10.,  20., 400.],
       [  1.,   2.,   8.]], dtype=float32)]
""",
    "csr_delay_deliver": """
Operands: the ring, weights, indices, row pointers, delays, events, and an array with the slot of now.

>>> import jax.numpy as jnp, brainevent
>>> structure = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
>>> events, delays, now = jnp.array([True, False]), jnp.array([1, 2, 1]), jnp.array([2])
>>> brainevent.csr_delay_deliver_p(jnp.zeros((3, 3)), jnp.array([5.0, 6.0, 7.0]), *structure, delays, events, now)
[Array([[5., 0., 0.],
       [0., 0., 6.],
       [0., 0., 0.]], dtype=float32)]
""",
    "csr_delay_deliver_indexed": """
Operands: the ring, weights, indices, row pointers, where each element has its weight and its delay, delays, events, and
an array with the slot of now.

>>> import jax.numpy as jnp, brainevent
>>> operator = brainevent.get_registry()["csr_delay_deliver_indexed"]
>>> structure = jnp.array([0, 2, 2]), jnp.array([0, 2, 3]), jnp.array([2, 1, 0])
>>> events, delays, now = jnp.array([True, False]), jnp.array([1, 2, 1]), jnp.array([0])
>>> operator(jnp.zeros((3, 3)), jnp.array([5.0, 6.0, 7.0]), *structure, delays, events, now)
[Array([[0., 0., 0.],
       [7., 0., 0.],
       [0., 0., 6.]], dtype=float32)]
""",
    "csr_delay_deliver_layout": """
Operands: the ring, weights, indices, row pointers, where elements of each delay end in each row, events, and an array
with the slot of now.

>>> import jax.numpy as jnp, brainevent
>>> structure, ends = (jnp.array([0, 2, 2]), jnp.array([0, 2, 3])), jnp.array([[0, 1, 2], [2, 3, 3]])
>>> events, now = jnp.array([True, False]), jnp.array([0])
>>> brainevent.csr_delay_deliver_layout_p(jnp.zeros((3, 3)), jnp.array([5.0, 6.0, 7.0]), *structure, ends, events, now)
[Array([[0., 0., 0.],
       [5., 0., 0.],
       [0., 0., 6.]], dtype=float32)]
""",
    "take_arrivals": """
Operands: the ring, and an array with the number of the step. Results: what arrives, and the new ring.

>>> import jax.numpy as jnp, brainevent
>>> ring = jnp.array([[1.0, 2.0], [3.0, 4.0]])
>>> outs = [ring[0], ring]  # only shapes and dtypes are used
>>> brainevent.take_arrivals_p(ring, jnp.array([5]), outs=outs)
[Array([3., 4.], dtype=float32), Array([[1., 2.],
       [0., 0.]], dtype=float32)]
""",
    "fcn_delay_deliver": """
Operands: the ring, weights and indices (rows, number), delays likewise, events, and an array with the slot of now.

>>> import jax.numpy as jnp, brainevent
>>> operator = brainevent.get_registry()["fcn_delay_deliver"]
>>> events, delays, now = jnp.array([True, False]), jnp.array([[1, 2], [1, 1]]), jnp.array([0])
>>> operator(jnp.zeros((3, 3)), jnp.ones((2, 2)), jnp.array([[0, 2], [1, 1]]), delays, events, now)
[Array([[0., 0., 0.],
       [1., 0., 0.],
       [0., 0., 1.]], dtype=float32)]
""",
}


def _drawn(family: str, kind: str, x: str, found: str) -> str:
    """Return the example of an operator on a drawn matrix that has all elements, with the weight 1.5."""
    weights = "[1.5]" if family == "jits" else "[1.5, 0.0]"
    operands = f"jnp.array({weights}), matrix.drawn, matrix.tables{x and f', {x}'}"
    return f"""
Operands: the numbers that weights are made of; what the matrix is drawn from; the tables{x and ", and x"}.

>>> import jax.numpy as jnp, brainevent
>>> matrix = brainevent.JITCScalarR((1.5, 1.0, 3), shape=(2, 3), corder=True)
>>> brainevent.{kind}_p({operands}, shape=(2, 3){x and ", transpose=False"})
[Array({found}, dtype=float32)]
"""


_TWO_BY_THREE = "[[1.5, 1.5, 1.5],\n       [1.5, 1.5, 1.5]]"
_TWO_BY_TWO = "[[{0}, {0}],\n       [{0}, {0}]]"
for _family in ("jits", "jitn", "jitu"):
    for _kind, _x, _found in (
        ("{}", "", _TWO_BY_THREE),
        ("{}mv", "jnp.ones(3)", "[4.5, 4.5]"),
        ("{}mm", "jnp.ones((3, 2))", _TWO_BY_TWO.format(4.5)),
        ("binary_{}mv", "jnp.array([True, False, True])", "[3., 3.]"),
        ("binary_{}mm", "jnp.array([[1, 1], [0, 0], [1, 1]])", _TWO_BY_TWO.format("3.")),
    ):
        _name = _kind.format(_family)
        EXAMPLES[_name] = _drawn(_family, _name, _x, _found)

_COMPRESSED = "jnp.array([0, 2, 2]), jnp.array([0, 2, 3])"
_STRUCTURES = {
    "csr{}": _COMPRESSED,
    "csr{}_indexed": f"{_COMPRESSED}, jnp.array([2, 1, 0])",
    "coo{}": "jnp.array([0, 0, 1]), jnp.array([0, 2, 2])",
    "fcn{}": "jnp.array([[0], [2]])",
}
_WEIGHTED = """
What is zero is left out, whatever the weights. `WeightedArray` calls this.

>>> import jax.numpy as jnp, brainevent
>>> operator = brainevent.get_registry()["{name}"]
>>> operator(jnp.array([2.0]), {structure}, {x}, shape=(2, 3), transpose=True)
{found}
"""
for _kind, _x, _found in (
    ("mv", "jnp.array([0.0, 3.0])", "[Array([0., 0., 6.], dtype=float32)]"),
    ("mm", "jnp.array([[0.0], [3.0]])", "[Array([[0.],\n       [0.],\n       [6.]], dtype=float32)]"),
):
    for _format, _structure in _STRUCTURES.items():
        _name = f"weighted_{_format.format(_kind)}"
        EXAMPLES[_name] = _WEIGHTED.format(name=_name, structure=_structure, x=_x, found=_found)
