# SPDX-License-Identifier: Apache-2.0
"""The kernel languages: which kernel each of them has for which operator."""
