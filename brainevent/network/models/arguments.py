# SPDX-License-Identifier: Apache-2.0
"""What all models take: attributes of their neurons, and errors that name the argument that is meant.

Other simulators have other names for the same arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, cast, overload

from ...errors import NetworkError, did_you_mean
from ..description.populations import Population

__all__ = ["model"]

P = ParamSpec("P")

Value = Any  # of an attribute: a number, an array (neurons,), a quantity of one, or values that are drawn

_PLACING = ("at", "units")  # arguments that all models have
_DESCRIBED = (
    'at: Attributes of the neurons, such as where they are, as for `Population`: `{"x": uniform(0, 1)}`.',
    'units: Units of these attributes, such as `{"x": "mm"}`; the model has units of its own.',
)
_MEANT = {
    "threshold": "v_th vth v_thresh v_threshold vt v_t",
    "reset": "v_reset vr v_r",
    "rest": "v_rest e_l el v_l e_leak",
    "refractory": "tau_ref t_ref tau_refractory refractory_period",
    "tau": "tau_m taum tau_membrane",
    "tau_exc": "tau_syn_ex tau_e taue tau_ampa tau_ex",
    "tau_inh": "tau_syn_in tau_i taui tau_gaba tau_in",
    "tau_syn": "tau_s taus tau_synapse",
    "capacitance": "c_m cm c",
    "leak": "g_l gl g_leak gleak",
    "rest_exc": "e_ex e_exc ee e_e e_ampa",
    "rest_inh": "e_in e_inh ei e_i e_gaba",
    "current": "i_e i_ext i_input i",
    "sharpness": "delta_t deltat",
    "peak": "v_peak v_spike",
    "v": "v_m v_init v0 vm",
    "sodium": "g_na gna",
    "potassium": "g_k gk",
    "rest_sodium": "e_na ena",
    "rest_potassium": "e_k ek",
    "rest_leak": "e_l el v_rest rest",
}


class Model(Protocol[P]):
    """A function that makes neurons, and gives them attributes, too."""

    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Population: ...
    @overload
    def __call__(
        self, *args: Any, at: Mapping[str, Value] | None, units: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Population: ...


def model(make: Callable[P, Population]) -> Model[P]:
    """Return a function that makes neurons with attributes, with an error for arguments that it does not have."""
    signature = inspect.signature(make)
    first = [name for name, one in signature.parameters.items() if one.kind is not one.KEYWORD_ONLY]
    names = [name for name in signature.parameters if name not in first]
    all_names = [*names, *_PLACING]

    @functools.wraps(make)
    def checked(*args: Any, **given: Any) -> Population:
        for name in given:
            if name not in first and name not in all_names:
                raise NetworkError(
                    f"{make.__name__}: has no argument {name!r}{_guess(name, all_names)}; "
                    f"arguments: {', '.join([*first, *all_names])}"
                )
        at, units = (given.pop(name, None) for name in _PLACING)
        made = make(*args, **given)
        return made if at is None and units is None else _placed(made, at or {}, units or {})

    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _PLACING]
    found: Any = checked
    found.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])
    found.__kwdefaults__ = make.__kwdefaults__
    found.__doc__ = make.__doc__ and re.sub(r"\n\n( *)Returns:", _describe_placing, make.__doc__, count=1)
    return cast(Model[P], found)


def _describe_placing(returns: re.Match[str]) -> str:
    """Return the lines of further arguments, before those of what is returned; Python 3.13 has no indent there."""
    return "".join(f"\n{returns[1]}    {line}" for line in _DESCRIBED) + returns[0]


def _placed(population: Population, at: Mapping[str, Value], units: Mapping[str, Any]) -> Population:
    """Return neurons with attributes, of which `units` are units."""
    where = f"population {population.name}"
    if not isinstance(units, Mapping):
        raise NetworkError(f"{where}: units is {units!r}; pass dict(name=unit) of the attributes in at=")
    for name in units:
        if name not in at:
            raise NetworkError(
                f"{where}: units has {name!r}, which is no attribute{did_you_mean(name, at)}; pass units of the "
                "attributes in at=: the model has units of its own"
            )
        if name in population.units and population.units[name] != units[name]:
            raise NetworkError(
                f"{where}: units has {name!r}, which the model has in {population.units[name]}; give the attribute "
                "another name"
            )
    return dataclasses.replace(population, at=at, units={**population.units, **units})


def _guess(name: str, names: list[str]) -> str:
    meant = [known for known in names if name.lower() in _MEANT.get(known, "").split()]
    return f"; did you mean {meant[0]!r}?" if meant else did_you_mean(name, names)
