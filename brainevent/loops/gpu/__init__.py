# SPDX-License-Identifier: Apache-2.0
"""Loops on a GPU: each is one kernel, whose blocks stay and meet at barriers."""
