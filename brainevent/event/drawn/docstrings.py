# SPDX-License-Identifier: Apache-2.0
"""Docstrings of the functions of drawn matrices, filled in for each distribution of weights."""

__all__ = ["COLUMNS", "DENSE", "EVENTS", "NUMBERS", "PER_SYNAPSE", "VECTOR"]

NUMBERS = {
    "weight": "weight: The weight of all elements, a floating scalar or quantity.",
    "w_loc": "w_loc: The mean of the weights, a floating scalar or quantity.",
    "w_scale": "w_scale: The standard deviation of the weights, in a unit of the same dimension.",
    "w_low": "w_low: The lower bound of the weights, a floating scalar or quantity.",
    "w_high": "w_high: The upper bound of the weights, in a unit of the same dimension.",
}

_MATRIX = """\
        {numbers}
        prob: The probability of each element, a scalar from 0 to 1."""
_HOW = """\
        shape: The shape of the matrix, (m, k).
        transpose: Whether to use the transposed matrix, of shape (k, m).
        corder: Whether the matrix is drawn row by row, and not column by column, which gives another matrix.
        backend: The name of the kernel to use; None for the default."""
_RAISES = """\
        TypeError: If a number of the weights is not floating, or the seed or the probability has a wrong type.
        ValueError: If the probability is not between 0 and 1."""

DENSE = f"""Return a random matrix as a dense array, {{weights}}.

    Each element exists with probability `prob`, independently of others. A seed always gives the same matrix, in every
    function that takes it, and a larger matrix of this seed begins with it. The result is differentiable with
    respect to {{quoted}}.

    Args:
{_MATRIX}
        seed: An integer, or a key of `jax.random.key`.
{_HOW}

    Returns:
        The matrix, (m, k); (k, m) if `transpose`. It has the dtype and the unit of the weights.

    Raises:
{_RAISES}

    Examples:
        >>> import brainevent
        >>> matrix = brainevent.{{name}}({{example}}, 0.5, 3, shape=(400, 300))
        >>> matrix.shape, round(float((matrix != 0).mean()), 1)
        ((400, 300), 0.5)
    """
VECTOR = f"""Multiply a random matrix that is never stored, `{{of}}(...)` of the same arguments, with a vector.

    The product is differentiable with respect to {{quoted}} and `vector`.

    Args:
{_MATRIX}
        vector: Real numbers, (k,); (m,) if `transpose`.
        seed: An integer, or a key of `jax.random.key`. None draws a new matrix for each call, or for each trace.
{_HOW}

    Returns:
        The product, (m,); (k,) if `transpose`. A quantity if an operand has a unit.

    Raises:
{_RAISES}
        ShapeError: If the length of `vector` does not fit the matrix.
        MathError: If `vector` has two dimensions.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.{{name}}({{example}}, 1.0, jnp.array([1.0, 10.0]), 3, shape=(1, 2)).shape
        (1,)
    """
EVENTS = f"""Sum the weights of the neurons that spiked, for the random matrix `{{of}}(...)`, which is never stored.

    `corder=False` is the fast direction: only the columns of neurons that spiked are drawn. A spike counts as one,
    whatever its value. The result is differentiable with respect to {{quoted}}, and with respect to the
    spikes as if each counted as its value.

    Args:
{_MATRIX}
        vector: The spikes: booleans or real numbers, of which every nonzero one is a spike, (k,); (m,) if `transpose`.
        seed: An integer, or a key of `jax.random.key`. None draws a new matrix for each call, or for each trace.
{_HOW}

    Returns:
        The sums, (m,); (k,) if `transpose`. A quantity if an operand has a unit.

    Raises:
{_RAISES}
        ShapeError: If the length of `vector` does not fit the matrix.
        MathError: If `vector` has two dimensions.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> events = jnp.zeros(1000, bool).at[7].set(True)
        >>> brainevent.{{name}}({{example}}, 0.02, events, 3, shape=(500, 1000), corder=False).shape
        (500,)
    """
COLUMNS = f"""Do for each column of a matrix what `{{of}}mv` does for a vector; all columns meet the same random matrix.

    Args:
{_MATRIX}
        B: {{columns}}, one vector a column, (k, n); (m, n) if `transpose`.
        seed: An integer, or a key of `jax.random.key`. None draws a new matrix for each call, or for each trace.
{_HOW}

    Returns:
        The results, (m, n); (k, n) if `transpose`. A quantity if an operand has a unit.

    Raises:
{_RAISES}
        ShapeError: If the length of the columns does not fit the matrix.
        MathError: If `B` has one dimension.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.{{name}}({{example}}, 0.1, jnp.ones((30, 4)), 3, shape=(20, 30)).shape
        (20, 4)
    """
PER_SYNAPSE = f"""Multiply the weight of each element with the value of its row or column in `y`.

    The elements are those of `{{of}}(...)` with `transpose=False`, in the order of `{{matrix}}.tocsr()`.

    Args:
{_MATRIX}
        y: Real numbers: one for each row, (m,), or for each column, (k,), if `transpose`.
        seed: An integer, or a key of `jax.random.key`.
        shape: The shape of the matrix, (m, k).
        transpose: Whether `y` has a value for each column, and not for each row.
        corder: Whether the matrix is drawn row by row, and not column by column, which gives another matrix.
        backend: The name of the kernel to use; None for the default.

    Returns:
        The products, one for each element of the matrix, in the product of the units.

    Raises:
{_RAISES}
        RuntimeError: If it is called under `jax.jit`, where the number of elements is unknown.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.{{name}}({{example}}, 1.0, jnp.array([1.0, 10.0]), 3, shape=(2, 3)).shape
        (6,)
    """
