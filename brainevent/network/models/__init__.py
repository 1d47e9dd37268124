# SPDX-License-Identifier: Apache-2.0
"""Ready models: neurons, sources of spikes and drives, each a rule that a user copies and changes."""

from .adex import adex, adex_rule
from .current_input import current_input
from .dopamine import dopamine
from .hodgkin_huxley import hodgkin_huxley, hodgkin_huxley_rule
from .izhikevich import izhikevich, izhikevich_rule
from .lif_conductance import lif_conductance, lif_conductance_rule
from .lif_current import lif_current, lif_current_rule
from .lif_delta import lif_delta, lif_delta_rule
from .lif_exponential import lif_exponential, lif_exponential_rule
from .noise_current import noise_current
from .poisson import poisson_drive, poisson_source, poisson_source_rule
from .spike_source import relay, relay_rule, spike_input, spike_source, spike_source_rule
from .step_current import step_current
from .tsodyks_markram import tsodyks_markram, tsodyks_markram_rule
from .voltage_traces import voltage_traces

__all__ = [
    "adex",
    "adex_rule",
    "current_input",
    "dopamine",
    "hodgkin_huxley",
    "hodgkin_huxley_rule",
    "izhikevich",
    "izhikevich_rule",
    "lif_conductance",
    "lif_conductance_rule",
    "lif_current",
    "lif_current_rule",
    "lif_delta",
    "lif_delta_rule",
    "lif_exponential",
    "lif_exponential_rule",
    "noise_current",
    "poisson_drive",
    "poisson_source",
    "poisson_source_rule",
    "relay",
    "relay_rule",
    "spike_input",
    "spike_source",
    "spike_source_rule",
    "step_current",
    "tsodyks_markram",
    "tsodyks_markram_rule",
    "voltage_traces",
]
