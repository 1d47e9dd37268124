# SPDX-License-Identifier: Apache-2.0
"""Which neurons a projection connects: `total`, `in_degree`, `out_degree`, `prob`, `all_to_all`, `one_to_one`.

A *multapse* is a second synapse between the same two neurons. `weight` is a number, values that are drawn for each
synapse such as `normal(1.0, 0.1, low=0)`, or, for some functions, an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from .checks import check_numbers, is_integer, is_number
from .values import Values

__all__ = ["Connect", "all_to_all", "in_degree", "one_to_one", "out_degree", "prob", "total"]

Weight = Any  # a number, a quantity, Values, or an array

_INSTEAD = "a number, values such as normal(1.0, 0.1), or an array"


@dataclass(frozen=True, eq=False)
class Connect:
    """Synapses that are drawn when a network is built; made by the functions of this module.

    Attributes:
        kind: Name of the function that made it.
        number: How many synapses, or with which probability.
        weight: Weight of the synapses.
        replace: Whether there may be multapses.
        self_connections: Whether a neuron may connect to itself.

    Examples:
        >>> import brainevent
        >>> brainevent.connect.prob(0.1, weight=0.5).kind
        'prob'
    """

    kind: str
    number: float
    weight: Weight
    replace: bool = False
    self_connections: bool = True

    def __post_init__(self) -> None:
        for name in ("replace", "self_connections"):
            if not isinstance(flag := getattr(self, name), bool):
                raise NetworkError(f"connect.{self.kind}: {name} is {flag!r}; pass True or False")
        if not isinstance(self.weight, Values):
            check_numbers(f"connect.{self.kind}: weight", self.weight, _INSTEAD)

    def __repr__(self) -> str:
        number = "" if self.kind in ("all_to_all", "one_to_one") else f"{self.number}, "
        weight = f"an array {np.shape(self.weight)}" if np.ndim(self.weight) else repr(self.weight)
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
        >>> from brainevent.network.description import connect
        >>> connect.total(1000, weight=0.5)
        total(1000, weight=0.5)
    """
    return Connect("total", _count("total", number), weight, True, self_connections)


def in_degree(number: int, *, weight: Weight = 1.0, replace: bool = True, self_connections: bool = True) -> Connect:
    """Draw this many synapses into each target neuron.

    Args:
        number: How many synapses.
        weight: Weight of each.
        replace: Whether there may be multapses; without, the sources of a neuron all differ.
        self_connections: Whether a neuron may connect to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Raises:
        NetworkError: The number is negative, or no integer; or the weight is neither numbers nor values that are drawn.

    Examples:
        >>> from brainevent.network.description import connect
        >>> connect.in_degree(100, weight=0.1, replace=False)
        in_degree(100, weight=0.1)
    """
    return Connect("in_degree", _count("in_degree", number), weight, replace, self_connections)


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
        >>> from brainevent.network.description import connect
        >>> connect.out_degree(80, weight=0.1)
        out_degree(80, weight=0.1)
    """
    return Connect("out_degree", _count("out_degree", number), weight, replace, self_connections)


def prob(p: float, *, weight: Weight = 1.0, replace: bool = False, self_connections: bool = True) -> Connect:
    """Connect any two neurons with a probability.

    Args:
        p: The probability, from 0 to 1.
        weight: Weight of each synapse.
        replace: Whether there may be multapses. If so, log(1 - p) / log(1 - 1 / pairs) synapses, rounded, are drawn
            between any two neurons, so that two neurons have at least one with probability p.
        self_connections: Whether a neuron may connect to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Raises:
        NetworkError: p is no probability, or 1 with `replace`; or the weight is neither numbers nor values.

    Examples:
        >>> from brainevent.network.description import connect
        >>> connect.prob(0.02, weight=1.62)
        prob(0.02, weight=1.62)
    """
    if not is_number(p) or not 0 <= p <= 1:
        raise NetworkError(f"connect.prob: p is {p!r}; pass a probability from 0 to 1")
    if replace and p == 1:
        raise NetworkError("connect.prob: p is 1 with replace=True; pass all_to_all(), or a smaller p")
    return Connect("prob", float(p), weight, replace, self_connections)


def all_to_all(*, weight: Weight = 1.0, self_connections: bool = True) -> Connect:
    """Connect every source neuron with every target neuron.

    Args:
        weight: Weight of each synapse; an array has the shape (sources, targets). Its zeros are synapses, too: weights
            that begin at zero can be learned.
        self_connections: Whether a neuron connects to itself; of no effect between two populations.

    Returns:
        What a `Projection` takes.

    Examples:
        >>> from brainevent.network.description import connect
        >>> connect.all_to_all(weight=-1)
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
        >>> from brainevent.network.description import connect
        >>> connect.one_to_one(weight=2.0)
        one_to_one(weight=2.0)
    """
    return Connect("one_to_one", 1, weight)


def _count(where: str, number: Any) -> int:
    if not is_integer(number) or number < 0:
        raise NetworkError(f"connect.{where}: number is {number!r}; pass an integer that is not negative")
    return int(number)
