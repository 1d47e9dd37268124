# SPDX-License-Identifier: Apache-2.0
"""Networks on the CPU: native code by Numba, the same bits on any number of threads."""
