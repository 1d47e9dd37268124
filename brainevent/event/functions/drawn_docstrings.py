# SPDX-License-Identifier: Apache-2.0
"""Docstrings of the functions of drawn matrices behind their first sentences, filled in for each distribution."""

__all__ = ["COLUMNS", "DENSE", "EVENTS", "PER_SYNAPSE", "VECTOR", "filled"]

_NUMBERS = {
    "weight": "weight: The weight of all elements, a floating scalar or quantity.",
    "w_loc": "w_loc: The mean of the weights, a floating scalar or quantity.",
    "w_scale": "w_scale: The standard deviation of the weights, in a unit of the same dimension.",
    "w_low": "w_low: The lower bound of the weights, a floating scalar or quantity.",
    "w_high": "w_high: The upper bound of the weights, in a unit of the same dimension.",
}
_FAMILIES = {  # by the beginnings of names: the class of the matrix, the numbers of its weights, and examples of these
    "jits": ("JITCScalarR", ("weight",), "1.5"),
    "jitn": ("JITCNormalR", ("w_loc", "w_scale"), "1.5, 0.1"),
    "jitu": ("JITCUniformR", ("w_low", "w_high"), "0.5, 1.5"),
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

DENSE = f"""\
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
VECTOR = f"""\
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
EVENTS = f"""\
    `corder=False` is the fast direction: only the columns of neurons that spiked are drawn. A spike counts as one,
    whatever its value. The result is differentiable with respect to {{quoted}}, and with respect to the
    spikes as if each counted as its value.

    Args:
{_MATRIX}
        vector: The spikes: booleans, or real numbers whose nonzero values are spikes, (k,); (m,) if `transpose`.
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
COLUMNS = f"""\
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
PER_SYNAPSE = f"""\
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


def filled(text: str, name: str) -> str:
    """Return one of these texts for a function."""
    family = name.removeprefix("binary_")[:4]
    matrix, numbers, example = _FAMILIES[family]
    return text.format(
        name=name,
        of=family,
        matrix=matrix,
        example=example,
        numbers=f"\n{' ' * 8}".join(_NUMBERS[each] for each in numbers),
        quoted=" and ".join(f"`{each}`" for each in numbers),
        columns="The spikes" if name.startswith("binary") else "Real numbers",
    )
