# SPDX-License-Identifier: Apache-2.0
"""The only rooms that know the binary interface of XLA."""
