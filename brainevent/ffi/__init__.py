# SPDX-License-Identifier: Apache-2.0
"""The only rooms that use the binary interface of XLA."""
