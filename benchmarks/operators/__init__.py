# SPDX-License-Identifier: Apache-2.0
"""Networks whose neurons are one operator, by hand in Numba and in CUDA C++, to compare simulations with."""
