# SPDX-License-Identifier: Apache-2.0
"""Calls of `simulate` with native engines, in programs of JAX."""
