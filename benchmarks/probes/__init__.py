# SPDX-License-Identifier: Apache-2.0
"""What is measured: each probe runs in a fresh process, with our brainevent or with the peer's."""
