# SPDX-License-Identifier: Apache-2.0
"""Spikes of a whole run: recorded on the device, counted and drawn afterwards."""
