# SPDX-License-Identifier: Apache-2.0
"""One operator, many kernels; imports no kernel language."""
