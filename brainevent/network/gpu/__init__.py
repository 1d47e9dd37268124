# SPDX-License-Identifier: Apache-2.0
"""The engine of networks on a GPU: one kernel runs many steps."""
