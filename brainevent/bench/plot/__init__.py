# SPDX-License-Identifier: Apache-2.0
"""Draw records as pictures; it is imported when one is asked for, as it needs matplotlib."""
