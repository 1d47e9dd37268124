# SPDX-License-Identifier: Apache-2.0
"""One network on several hosts: the processes of `jax.distributed`, each of which owns some of the neurons."""
