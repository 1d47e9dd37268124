# SPDX-License-Identifier: Apache-2.0
"""Run a plan: record it, show it, save it and go on."""
