# SPDX-License-Identifier: Apache-2.0
"""Pretend GPUs that run at the same time, in one memory; a kernel may come late, not at all, end early, or fail."""

import copy
import ctypes
import threading
import time

import jax
import numpy as np
from gpu_on_cpu import PretendDevice

from brainevent.errors import KernelLoadError
from brainevent.network.gpu.several.engine import SeveralEngine

# What the next launch of a kernel for several GPUs does; one that is stuck ends when `RELEASED` is set.
FAULTS = ("late", "never", "ended", "a step early", "failed", "refused", "stuck")
RELEASED = threading.Event()


class PretendPeer(PretendDevice):
    """One of several pretend GPUs: a launch returns at once, and what comes after it waits for it, as in a stream."""

    def __init__(self, number, **options):
        super().__init__(**options)
        self.number, self.fault, self._running, self._error = number, None, None, None
        self.of_jax = jax.devices("cpu")[0]

    def beside(self):
        other = copy.copy(self)
        other._running = other._error = None
        return other

    def launch(self, kernel, blocks, threads, shared, parameters, *, at_once=False, clustered=False):
        self.wait()
        fault, self.fault = (self.fault, None) if at_once else (None, self.fault)
        if fault == "refused":
            raise KernelLoadError("network on a GPU: cuLaunchCooperativeKernel: CUDA_ERROR_LAUNCH_FAILED")
        if fault == "failed":
            self._error = KernelLoadError("network on a GPU: cuStreamQuery: CUDA_ERROR_ILLEGAL_INSTRUCTION")
        if fault in ("never", "failed"):
            return
        if fault in ("ended", "a step early"):
            steps = int.from_bytes(parameters[2], "little")
            steps = steps // 2 if fault == "ended" else steps - 1
            parameters = [*parameters[:2], np.uint32(steps).tobytes()]

        def run():
            if fault == "late":
                time.sleep(0.05)
            if fault == "stuck":
                RELEASED.wait()
                return
            launch(kernel, blocks, threads, shared, parameters, at_once=at_once, clustered=clustered)

        launch = super().launch
        if not at_once:
            run()
            return
        self._running = threading.Thread(target=run)
        self._running.start()

    def wait(self):
        if self._running is not None:
            self._running.join()
            self._running = None
        if self._error is not None:
            raise self._error

    def is_done(self):
        if self._error is not None:
            raise self._error
        return self._running is None or not self._running.is_alive()

    def copy_in(self, address, array):
        self.wait()
        super().copy_in(address, array)

    def copy_out(self, array, address):
        self.wait()
        super().copy_out(array, address)

    def fill_zero(self, address, nbytes):
        self.wait()
        ctypes.memset(address, 0, nbytes)


def several_of(plan, gpus, blocks=2, **options):
    """Return an engine for a plan on a number of pretend GPUs, with so many blocks each."""
    shared_bytes = options.pop("shared_bytes", None)
    clocks = options.pop("clocks", False)
    devices = [PretendPeer(number, **options) for number in range(gpus)]
    return SeveralEngine(plan, devices=devices, blocks=blocks, shared_bytes=shared_bytes, clocks=clocks)
