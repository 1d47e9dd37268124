# SPDX-License-Identifier: Apache-2.0
"""Name the argument that is meant, where a model is called with a name of another simulator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...errors import NetworkError, did_you_mean
from ..description.populations import Population

__all__ = ["model"]

Model = TypeVar("Model", bound=Callable[..., Population])

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


def model(make: Model) -> Model:
    """Return a function that makes neurons, with an error for arguments that it does not have."""
    names = list(make.__kwdefaults__ or ())

    @functools.wraps(make)
    def checked(*args: Any, **given: Any) -> Population:
        for name in given:
            if name not in ("name", "size", *names):
                raise NetworkError(
                    f"{make.__name__}: has no argument {name!r}{_guess(name, names)}; "
                    f"arguments: name, size, {', '.join(names)}"
                )
        return make(*args, **given)

    found = cast(Model, checked)
    found.__kwdefaults__ = make.__kwdefaults__
    return found


def _guess(name: str, names: list[str]) -> str:
    meant = [known for known in names if name.lower() in _MEANT.get(known, "").split()]
    return f"; did you mean {meant[0]!r}?" if meant else did_you_mean(name, names)
