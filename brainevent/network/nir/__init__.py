# SPDX-License-Identifier: Apache-2.0
"""Networks from and to the Neuromorphic Intermediate Representation (NIR)."""
