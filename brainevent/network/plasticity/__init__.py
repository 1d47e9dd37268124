# SPDX-License-Identifier: Apache-2.0
"""Ready plasticity: rules of one synapse, each in a file of its own that a user copies and changes."""

from .bcm import bcm, bcm_on_pre
from .clopath import clopath, clopath_on_pre, clopath_on_upstate
from .homeostatic_scaling import homeostatic_scaling, homeostatic_scaling_every
from .inhibitory_stdp import inhibitory_stdp, inhibitory_stdp_on_post, inhibitory_stdp_on_pre
from .multiplicative_stdp import multiplicative_stdp, multiplicative_stdp_on_post, multiplicative_stdp_on_pre
from .nonlinear_stdp import nonlinear_stdp, nonlinear_stdp_on_post, nonlinear_stdp_on_pre
from .oja import oja, oja_on_post
from .power_law_stdp import power_law_stdp, power_law_stdp_on_post, power_law_stdp_on_pre
from .reward_stdp import reward_stdp, reward_stdp_every, reward_stdp_on_post, reward_stdp_on_pre
from .stdp import stdp, stdp_on_post, stdp_on_pre
from .triplet_stdp import triplet_stdp, triplet_stdp_on_post, triplet_stdp_on_pre

__all__ = [
    "bcm",
    "bcm_on_pre",
    "clopath",
    "clopath_on_pre",
    "clopath_on_upstate",
    "homeostatic_scaling",
    "homeostatic_scaling_every",
    "inhibitory_stdp",
    "inhibitory_stdp_on_post",
    "inhibitory_stdp_on_pre",
    "multiplicative_stdp",
    "multiplicative_stdp_on_post",
    "multiplicative_stdp_on_pre",
    "nonlinear_stdp",
    "nonlinear_stdp_on_post",
    "nonlinear_stdp_on_pre",
    "oja",
    "oja_on_post",
    "power_law_stdp",
    "power_law_stdp_on_post",
    "power_law_stdp_on_pre",
    "reward_stdp",
    "reward_stdp_every",
    "reward_stdp_on_post",
    "reward_stdp_on_pre",
    "stdp",
    "stdp_on_post",
    "stdp_on_pre",
    "triplet_stdp",
    "triplet_stdp_on_post",
    "triplet_stdp_on_pre",
]
