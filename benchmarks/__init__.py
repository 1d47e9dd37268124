# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that compare brainevent, side by side, with C++ and with its peers: `python -m benchmarks`."""
