# SPDX-License-Identifier: Apache-2.0
"""Loops of `jax.lax.scan`, each compiled as one native call."""
