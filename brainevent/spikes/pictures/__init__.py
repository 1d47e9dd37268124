# SPDX-License-Identifier: Apache-2.0
"""Pictures of spikes, states and weights; imported when one is asked for, as they need matplotlib."""
