# SPDX-License-Identifier: Apache-2.0
"""Pretend GPUs whose kernels XLA's programs on the CPUs of a mesh run at the same time."""

import copy
import threading
import time

import jax
from network_in_jax import DeviceInJax
from several_on_cpu import PretendPeer

from brainevent.errors import KernelLoadError
from brainevent.network.gpu.several.engine import SeveralEngine
from brainevent.network.run.simulation import Simulation

FAULTS: dict[int, str] = {}  # by number of a GPU: what its next launch in a program does


class PeerInJax(PretendPeer, DeviceInJax):
    """One of several pretend GPUs, which is a CPU of JAX."""

    of_jax = None

    def __init__(self, number, **options):
        super().__init__(number, **options)
        self.of_jax = jax.devices("cpu")[number]

    def kernel(self, text, entry, shared):
        of_programs = entry == "fill" or "bool TRACED = true" in text
        return self.code(text, entry) if of_programs else super().kernel(text, entry, shared)

    @property
    def ordinal(self):
        return self.number

    def on(self, stream):
        other = copy.copy(self)
        other._running = other._error = None
        return other

    def begin(self, act):
        """What calls of native code do comes after this, at the same time as on others."""
        fault = FAULTS.pop(self.number, None)
        if fault == "refused":
            raise KernelLoadError("network on a GPU: cuLaunchCooperativeKernel: CUDA_ERROR_LAUNCH_FAILED")
        if fault == "failed":
            self._error = KernelLoadError("network on a GPU: cuStreamQuery: CUDA_ERROR_ILLEGAL_INSTRUCTION")
        if fault in ("never", "failed"):
            return 0

        def run():
            if fault == "late":
                time.sleep(0.05)
            act()

        self._running = threading.Thread(target=run)
        self._running.start()
        return 0


def built(plan, gpus=2, blocks=2, shared_bytes=None, **options):
    """Return a simulation of a plan on a number of pretend GPUs, with so many blocks each."""
    devices = [PeerInJax(number, **options) for number in range(gpus)]
    return Simulation(plan, SeveralEngine(plan, devices=devices, blocks=blocks, shared_bytes=shared_bytes))
