# SPDX-License-Identifier: Apache-2.0
"""From source text to a loaded library; imports no JAX."""
