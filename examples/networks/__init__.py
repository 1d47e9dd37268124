# SPDX-License-Identifier: Apache-2.0
"""Spiking networks as small programs: `python -m examples.networks.coba`."""
