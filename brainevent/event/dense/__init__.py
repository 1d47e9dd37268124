# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices with vectors and matrices of events."""
