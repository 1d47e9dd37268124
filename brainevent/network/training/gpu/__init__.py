# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU: all steps of a layer forward, and all of them backward, as one kernel each."""
