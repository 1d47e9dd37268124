# SPDX-License-Identifier: Apache-2.0
"""What happens at the elements of a matrix: one file a kind of law."""
