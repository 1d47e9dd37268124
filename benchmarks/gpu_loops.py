# SPDX-License-Identifier: Apache-2.0
"""Loops of `jax.lax.scan` on a GPU: XLA's, the same as one kernel (`config.fuse_loops`), and the engine of networks.

    $ python benchmarks/gpu_loops.py            # all
    $ python benchmarks/gpu_loops.py cuba noise # some

`brainpy` is COBA as brainpy.state describes it, if that is installed. Each line is the shortest time of a step in
microseconds, of runs that follow each other in one process, the median of three such times; the three of the loop as
one kernel, the spikes of both, and how long both took to be traced and compiled.
"""

import statistics
import sys
import time
from importlib.util import find_spec

import jax
import jax.extend
import numpy as np
from fused_programs import both_ways, coba, compiled, cuba, noise, stdp
from jax import numpy as jnp

import brainevent as be
from examples.networks import coba as coba_network
from examples.networks import cuba as cuba_network

SIZES = {4_000: 10_000, 40_000: 4_000, 400_000: 1_000}


def of_arrays(program):
    """Return a program of `fused_programs.py` by sizes, as other programs are."""
    return lambda n, steps: compiled(*program(n, steps))


def brainpy(n, steps):
    """Return COBA as brainpy.state describes it, traced, with 80 targets of each neuron."""
    import brainpy
    import brainstate
    import braintools
    import brainunit as u

    class Coba(brainstate.nn.Module):
        def __init__(self):
            super().__init__()
            volt = {"V_rest": -60 * u.mV, "V_th": -50 * u.mV, "V_reset": -60 * u.mV}
            start = braintools.init.Normal(-55 * u.mV, 2 * u.mV)
            self.neurons = brainpy.state.LIFRef(n, tau=20 * u.ms, tau_ref=5 * u.ms, V_initializer=start, **volt)
            self.exc = self.synapses(n * 4 // 5, 0.6 * u.mS, 5 * u.ms, 0 * u.mV)
            self.inh = self.synapses(n // 5, 6.7 * u.mS, 10 * u.ms, -80 * u.mV)

        def synapses(self, count, weight, tau, reversal):
            return brainpy.state.AlignPostProj(
                comm=brainstate.nn.EventFixedProb(count, n, conn_num=80 / n, conn_weight=weight, allow_multi_conn=True),
                syn=brainpy.state.Expon.desc(n, tau=tau),
                out=brainpy.state.COBA.desc(E=reversal),
                post=self.neurons,
            )

        def update(self, t):
            with brainstate.environ.context(t=t):
                spikes = self.neurons.get_spike() != 0
                self.exc(spikes[: n * 4 // 5])
                self.inh(spikes[n * 4 // 5 :])
                self.neurons(20 * u.mA)
                return self.neurons.get_spike()

    brainstate.environ.set(dt=0.1 * u.ms)
    network = Coba()
    brainstate.nn.init_all_states(network)
    steps_of_time = np.arange(steps, dtype=np.float32) * 0.1 * u.ms
    traced, states = brainstate.transform.make_jaxpr(
        lambda: brainstate.transform.for_loop(network.update, steps_of_time)
    )()
    arguments = jax.tree.leaves([state.value for state in states])

    def run(*values):
        spikes, *rest = jax.extend.core.jaxpr_as_fun(traced)(*values)
        return rest, spikes

    programs, is_fused = both_ways(run, arguments)
    return programs, arguments, steps, is_fused


def numba_cuda(n, steps):
    """CUBA as `fused_programs.py` has it, whose neurons are one operator in Numba-CUDA."""
    from numba import cuda, float32

    exc_factor, inh_factor = np.float32(np.exp(-0.1 / 5)), np.float32(np.exp(-0.1 / 10))

    @cuda.jit
    def kernel(v, exc, inh, rest, arrived, v_out, exc_out, inh_out, rest_out, spikes):
        """Update neurons.

        Thread t reads v[t] alone. Thread t reads exc[t] alone. Thread t reads inh[t] alone. Thread t reads rest[t]
        alone. Thread t writes v_out[t] alone. Thread t writes exc_out[t] alone. Thread t writes inh_out[t] alone.
        Thread t writes rest_out[t] alone. Thread t writes spikes[t] alone.
        """
        i = cuda.grid(1)
        if i < v.size:
            excitation = exc_factor * exc[i] + float32(1.62) * arrived[i]
            inhibition = inh_factor * inh[i] - float32(9) * arrived[v.size + i]
            new = v[i]
            if rest[i] <= 0:
                new += float32(0.1 / 20) * (excitation + inhibition - (new + float32(49)))
            spikes[i] = new > -50
            v_out[i] = float32(-60) if spikes[i] else new
            rest_out[i] = float32(49) if spikes[i] else rest[i] - float32(1)
            exc_out[i], inh_out[i] = excitation, inhibition

    neurons = be.XLACustomKernel(f"neurons_of_{n}")
    in_place = {place: place for place in range(4)}

    @neurons.def_numba_cuda_kernel
    def of_types(*, outs):
        return be.numba_cuda_kernel(kernel, outs=list(outs), launch_dims=n, input_output_aliases=in_place)

    _, state, _, synapses = cuba(n, steps)
    outs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in state]

    def step(state, _, synapses):
        *state, spikes = state
        state = neurons(*state, be.BinaryArray(spikes) @ synapses, outs=outs)
        return tuple(state), state[4]

    return step, state, steps, synapses


PROGRAMS = {
    "cuba": (of_arrays(cuba), SIZES, cuba_network),
    "coba": (of_arrays(coba), SIZES, coba_network),
    "brainpy": (brainpy, SIZES, coba_network),
    "noise": (of_arrays(noise), SIZES, None),
    "numba_cuda": (of_arrays(numba_cuda), SIZES, cuba_network),
    "stdp": (of_arrays(stdp), {1_000: 4_000, 10_000: 2_000}, None),
}
ATTEMPTS, ROUNDS = 3, 5


def times(run, steps):
    """Return the shortest time of a step in microseconds, for each attempt."""
    found = []
    for _ in range(ATTEMPTS):
        best = np.inf
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            jax.block_until_ready(run())
            best = min(best, time.perf_counter() - begin)
        found.append(best / steps * 1e6)
    return found


def measured(name, program, n, steps, engine):
    """Print the times of one program."""
    begin = time.perf_counter()
    programs, arguments, steps, is_fused = program(n, steps)
    seconds = time.perf_counter() - begin
    spikes = [float(jnp.sum(each(*arguments)[1])) for each in programs]
    xla, own = (times(lambda each=each: each(*arguments), steps) for each in programs)
    said = "" if is_fused else " (left to XLA)"
    columns = [statistics.median(xla), statistics.median(own)]
    line = f"{name:7} {n:7} XLA {columns[0]:7.2f} us, one kernel {columns[1]:7.2f} us{said}"
    line += f", relative {columns[1] / columns[0]:.2f}, {own[0]:.2f} {own[1]:.2f} {own[2]:.2f}"
    line += f", spikes {spikes[0]:.0f} {spikes[1]:.0f}, ready in {seconds:.1f} s"
    if engine is not None:
        network = engine.network(n=n)
        names = [f"{population.name}.spikes" for population in network.populations]
        simulation = network.build(seed=1)
        simulation.run(steps, record=names)
        line += f", engine {statistics.median(times(lambda: simulation.run(steps, record=names), steps)):.2f} us"
    print(line, flush=True)


if __name__ == "__main__":
    print(jax.devices()[0].device_kind, jax.__version__)
    wanted = sys.argv[1:] or [name for name in PROGRAMS if name != "brainpy" or find_spec("brainpy")]
    assert set(PROGRAMS) >= set(wanted), f"there are {list(PROGRAMS)}"
    for name in wanted:
        program, sizes, engine = PROGRAMS[name]
        for n, steps in sizes.items():
            measured(name, program, n, steps, engine)
