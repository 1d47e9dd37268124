# SPDX-License-Identifier: Apache-2.0
"""The functions that users call with the arrays of a format: products, dense rows, products of pairs."""
