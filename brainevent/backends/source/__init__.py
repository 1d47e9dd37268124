# SPDX-License-Identifier: Apache-2.0
"""C++ and CUDA C++: from a source text to functions of JAX arrays."""
