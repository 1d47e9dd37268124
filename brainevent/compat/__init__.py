# SPDX-License-Identifier: Apache-2.0
"""Names that programs of the earlier `brainevent` package use, and that nothing in this package needs."""
