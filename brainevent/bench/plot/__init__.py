# SPDX-License-Identifier: Apache-2.0
"""Draw records as pictures; imported when used, because it needs matplotlib."""
