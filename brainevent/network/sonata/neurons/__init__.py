# SPDX-License-Identifier: Apache-2.0
"""Point neurons by the names that NEST gives them, with its parameters, equations and order of events in a step."""
