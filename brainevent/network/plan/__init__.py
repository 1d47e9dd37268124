# SPDX-License-Identifier: Apache-2.0
"""From a description to a plan: what every engine runs."""
