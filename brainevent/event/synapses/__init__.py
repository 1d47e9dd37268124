# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons: one result for each stored element, and no sum."""
