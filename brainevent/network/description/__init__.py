# SPDX-License-Identifier: Apache-2.0
"""What a user writes: populations, projections, kinds of connections, drawn values."""
