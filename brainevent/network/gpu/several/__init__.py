# SPDX-License-Identifier: Apache-2.0
"""One network on several GPUs of one host, whose kernels exchange spikes through each other's memory."""
