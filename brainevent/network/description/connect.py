# SPDX-License-Identifier: Apache-2.0
"""Which neurons a projection connects: `total`, `in_degree`, `out_degree`, `prob`, `all_to_all`, `one_to_one`.

A *multapse* is a second synapse between the same two neurons. `weight` is a number, values that are drawn for each
synapse such as `normal(1.0, 0.1, low=0)`, a function of attributes of both neurons, or, for some functions, an array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from .checks import check_numbers, is_integer, is_number, is_word, named, takes_two
from .values import Values

__all__ = ["Connect", "all_to_all", "in_degree", "one_to_one", "out_degree", "prob", "total"]

Weight = Any  # a number, a quantity, Values, a function of two neurons, or an array

_INSTEAD = "a number, values such as normal(1.0, 0.1), or an array"


@dataclass(frozen=True, eq=False)
class Connect:
    """Synapses that are drawn when a network is built; made by the functions of this module.

    Attributes:
        kind: Name of the function that made it.
        number: How many synapses, or with which probability: a number, or a function of two neurons.
        weight: Weight of the synapses.
        replace: Whether there may be multapses.
        self_connections: Whether a neuron may connect to itself.
        by: Name of the attribute that says in which group a neuron is, if `number` is a table of groups; else None.

    Examples:
        >>> import brainevent
        >>> brainevent.connect.prob(0.1, weight=0.5).kind
        'prob'
    """

    kind: str
    number: Any
    weight: Weight
    replace: bool = False
    self_connections: bool = True
    by: str | None = None

    def __post_init__(self) -> None:
        for name in ("replace", "self_connections"):
            if not isinstance(flag := getattr(self, name), bool):
                raise NetworkError(f"connect.{self.kind}: {name} is {flag!r}; pass True or False")
        if not isinstance(self.weight, Values) and not takes_two(self.weight):
            check_numbers(f"connect.{self.kind}: weight", self.weight, _INSTEAD)

    def __repr__(self) -> str:
        number = "" if self.kind in ("all_to_all", "one_to_one") else f"{named(self.number)}, "
        if self.by is not None:
            number = f"a table {np.shape(self.number)}, by={self.by!r}, "
        weight = named(self.weight)
        if not callable(self.weight) and np.ndim(self.weight):
            weight = f"an array {np.shape(self.weight)}"
        return f"{self.kind}({number}weight={weight})"


def total(number: int, *, weight: Weight = 1.0, self_connections: bool = True) -> Connect:
    """Draw this many synapses, each between any two neurons; there may be multapses.

    Args:
        number: How many synapses.
        weight: Weight of each.
        self_connections: Whether a neuron may connect to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Raises:
        NetworkError: The number is negative, or no integer; or the weight is neither numbers nor values that are drawn.

    Examples:
        >>> import brainevent as be
        >>> be.connect.total(1000, weight=0.5)
        total(1000, weight=0.5)
    """
    return Connect("total", _count("total", number), weight, True, self_connections)


def in_degree(
    number: int | Any,
    *,
    weight: Weight = 1.0,
    replace: bool = True,
    self_connections: bool = True,
    by: str | None = None,
) -> Connect:
    """Draw this many synapses into each target neuron, from any sources or from groups of them.

    With `by`, an attribute of both populations says in which group a neuron is: 0, 1, 2 and so on. Row i of the table
    `number` then says how many synapses each target of group i has from sources of each group. One projection with a
    table replaces one projection for each pair of groups.

    Args:
        number: How many synapses; with `by`, an array (groups of targets, groups of sources).
        weight: Weight of each.
        replace: Whether there may be multapses; without, the sources of a neuron all differ.
        self_connections: Whether a neuron may connect to itself; of no effect between two populations.
        by: Name of an attribute in `at=` of both populations, which are integers that begin at 0. Multapses and
            synapses of a neuron with itself may then occur.

    Returns:
        What a `Projection` takes.

    Raises:
        NetworkError: The number is negative, or no integer; the weight is neither numbers nor values that are drawn; or
            `by` is used with `replace=False` or `self_connections=False`.

    Examples:
        >>> import brainevent as be
        >>> be.connect.in_degree(100, weight=0.1, replace=False)
        in_degree(100, weight=0.1)
        >>> be.connect.in_degree([[80, 20], [30, 70]], by="area")
        in_degree(a table (2, 2), by='area', weight=1.0)
    """
    if by is None:
        return Connect("in_degree", _count("in_degree", number), weight, replace, self_connections)
    if not is_word(by):
        raise NetworkError(f"connect.in_degree: by is {by!r}; pass the name of an attribute, such as 'area'")
    for name, flag in (("replace", replace), ("self_connections", self_connections)):
        if flag is not True:
            raise NetworkError(f"connect.in_degree: {name} is {flag!r} with by={by!r}; pass {name}=True")
    return Connect("in_degree", _table(by, number), weight, by=by, replace=True)


def out_degree(number: int, *, weight: Weight = 1.0, replace: bool = True, self_connections: bool = True) -> Connect:
    """Draw this many synapses from each source neuron.

    Args:
        number: How many synapses.
        weight: Weight of each.
        replace: Whether there may be multapses; without, the targets of a neuron all differ.
        self_connections: Whether a neuron may connect to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Raises:
        NetworkError: The number is negative, or no integer; or the weight is neither numbers nor values that are drawn.

    Examples:
        >>> import brainevent as be
        >>> be.connect.out_degree(80, weight=0.1)
        out_degree(80, weight=0.1)
    """
    return Connect("out_degree", _count("out_degree", number), weight, replace, self_connections)


def prob(
    p: float | Callable[..., Any], *, weight: Weight = 1.0, replace: bool = False, self_connections: bool = True
) -> Connect:
    """Connect any two neurons with a probability.

    Args:
        p: The probability, from 0 to 1; or a function of the attributes of source and target that returns it, in
            `jax.numpy`: `lambda pre, post: 0.3 * jnp.exp(-(pre.x - post.x)**2 / 0.02)`. Each pair of neurons is then
            connected or not by a random number of its own. Where the function is 0 for all neurons in the
            neighbourhoods of two, as beyond a cut-off by `jnp.where`, these cost nothing.
        weight: Weight of each synapse, or such a function of it.
        replace: Whether there may be multapses. If so, log(1 - p) / log(1 - 1 / pairs) synapses, rounded, are drawn
            between any two neurons, so that two neurons have at least one with probability p.
        self_connections: Whether a neuron may connect to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Raises:
        NetworkError: p is no probability, or 1 or a function with `replace`; or the weight is neither numbers, values
            nor a function.

    Examples:
        >>> import brainevent as be
        >>> be.connect.prob(0.02, weight=1.62)
        prob(0.02, weight=1.62)
    """
    if takes_two(p):
        if replace:
            raise NetworkError("connect.prob: p is a function, with replace=True; pass replace=False")
        return Connect("prob", p, weight, replace, self_connections)
    number: Any = p
    if not is_number(number) or not 0 <= number <= 1:
        raise NetworkError(
            f"connect.prob: p is {p!r}; pass a probability from 0 to 1, or a function of attributes, such as "
            "lambda pre, post: ..."
        )
    if replace and number == 1:
        raise NetworkError("connect.prob: p is 1 with replace=True; pass all_to_all(), or a smaller p")
    return Connect("prob", float(number), weight, replace, self_connections)


def all_to_all(*, weight: Weight = 1.0, self_connections: bool = True) -> Connect:
    """Connect every source neuron with every target neuron.

    Args:
        weight: Weight of each synapse; an array has the shape (sources, targets). Its zeros are synapses, too: weights
            that begin at zero can be learned.
        self_connections: Whether a neuron connects to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Examples:
        >>> import brainevent as be
        >>> be.connect.all_to_all(weight=-1)
        all_to_all(weight=-1)
    """
    return Connect("all_to_all", 1, weight, False, self_connections)


def one_to_one(*, weight: Weight = 1.0) -> Connect:
    """Connect neuron i with neuron i of another population of the same size.

    Args:
        weight: Weight of each synapse; an array has the shape (neurons,).

    Returns:
        What a `Projection` takes.

    Examples:
        >>> import brainevent as be
        >>> be.connect.one_to_one(weight=2.0)
        one_to_one(weight=2.0)
    """
    return Connect("one_to_one", 1, weight)


def _count(where: str, number: Any) -> int:
    if callable(number):
        raise NetworkError(
            f"connect.{where}: number is a function; pass an integer that is not negative; connect.prob takes a "
            "function of attributes"
        )
    if not is_integer(number) or number < 0:
        raise NetworkError(f"connect.{where}: number is {number!r}; pass an integer that is not negative")
    return int(number)


def _table(by: str, number: Any) -> Any:
    """Return a copy of the numbers of synapses by groups of targets and of sources, int64, which does not change."""
    where = f"connect.in_degree: number, with by={by!r},"
    instead = "pass integers that are not negative, (groups of targets, groups of sources)"
    try:
        table = np.array(number)
    except (TypeError, ValueError):
        raise NetworkError(f"{where} is not one array; {instead}") from None
    if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "iu":
        shown = f"{table.dtype} {table.shape}" if table.ndim else repr(number)
        raise NetworkError(f"{where} is {shown}; {instead}")
    wrong = np.argwhere((table < 0) | (table >= 2**31))
    if wrong.size:
        place = tuple(wrong[0].tolist())
        raise NetworkError(f"{where} has {table[place]} at {place}; {instead}, below 2**31")
    table = table.astype(np.int64)
    table.flags.writeable = False
    return table
