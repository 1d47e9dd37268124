# SPDX-License-Identifier: Apache-2.0
"""One room per kernel language; none imports operators."""
