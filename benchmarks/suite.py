# SPDX-License-Identifier: Apache-2.0
"""The table of benchmarks: a new one is a line here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from benchmarks import (
    agreement,
    build,
    compile_time,
    connectivity,
    delays,
    drawn,
    energy,
    events,
    flywire,
    formats,
    gpu_engine,
    gpu_examples,
    gpu_graph,
    gpu_microcircuit,
    gpu_overhead,
    gpu_plastic,
    gpu_several,
    gpu_start,
    gpu_vmap,
    hpc,
    import_time,
    latency,
    memory,
    microcircuit,
    microcircuit_statistics,
    network_costs,
    networks,
    overhead,
    plastic_networks,
    plastic_steps,
    plasticity,
    sheet,
    start,
    sweeps,
    training,
    training_start,
    tuned,
    vmap,
)
from benchmarks.options import Options
from benchmarks.row import Absent, Data, Failed, Row


@dataclass(frozen=True)
class Benchmark:
    """A name, what it measures, and how to get its rows: all at the end, or each as soon as it is there."""

    name: str
    title: str
    platform: Literal["cpu", "gpu"]
    measure_rows: Callable[[Options], Iterable[Row | Absent | Failed | Data]]


BENCHMARKS = (
    Benchmark("overhead", "one call over 64 floats inside a jitted loop", "cpu", overhead.measure_rows),
    Benchmark("vmap", "a batch of 1 000 over 64 floats", "cpu", vmap.measure_rows),
    Benchmark("import", "import brainevent after import jax", "cpu", import_time.measure_rows),
    Benchmark("latency", "one call from Python over 64 floats", "cpu", latency.measure_rows),
    Benchmark("start", "the first products of a new process, in CPU seconds", "cpu", start.measure_rows),
    Benchmark("compile", "a new kernel or shape, up to its first result", "cpu", compile_time.measure_rows),
    Benchmark("build", "a vector-add from its source text to a loaded operator", "cpu", build.measure_rows),
    Benchmark("memory", "growth of the resident memory after a warm-up", "cpu", memory.measure_rows),
    Benchmark("agreement", "our benchmark beside other clocks", "cpu", agreement.measure_rows),
    Benchmark("tuned", "one call over 64 floats, chosen in three ways", "cpu", tuned.measure_rows),
    Benchmark("events", "spikes times a sparse matrix, beside other ways and the limit", "cpu", events.measure_rows),
    Benchmark("formats", "one in a hundred spikes, times a matrix in each format", "cpu", formats.measure_rows),
    Benchmark("plasticity", "a product, and then a change of the weights", "cpu", plasticity.measure_rows),
    Benchmark("delays", "spikes through synapses with a delay each", "cpu", delays.measure_rows),
    Benchmark("drawn", "one in a hundred spikes, times a matrix that is drawn", "cpu", drawn.measure_rows),
    Benchmark("connectivity", "matrices of random connections", "cpu", connectivity.measure_rows),
    Benchmark("sheet", "synapses that are drawn by distance", "cpu", sheet.measure_rows),
    Benchmark("networks", "a step of CUBA and COBA, beside other programs", "cpu", networks.measure_rows),
    Benchmark("plastic_steps", "a step of a network with plastic synapses", "cpu", plastic_steps.measure_rows),
    Benchmark("microcircuit", "wall time over the network's time, PD14", "cpu", microcircuit.measure_rows),
    Benchmark("microcircuit_statistics", "how PD14 fires, of ten seeds", "cpu", microcircuit_statistics.measure_rows),
    Benchmark("flywire", "wall time over the network's time, a connectome", "cpu", flywire.measure_rows),
    Benchmark("hpc", "wall time over the network's time, 9 000 plastic inputs", "cpu", hpc.measure_rows),
    Benchmark("vogels", "inhibition that learns, beside other programs", "cpu", plastic_networks.measure_vogels_rows),
    Benchmark("reward", "an hour of late rewards", "cpu", plastic_networks.measure_reward_rows),
    Benchmark("sweeps", "many runs of a network side by side, beside one after another", "cpu", sweeps.measure_rows),
    Benchmark("network_costs", "what a network costs besides its steps", "cpu", network_costs.measure_rows),
    Benchmark("training", "a step of training of a recurrent network", "cpu", training.measure_rows),
    Benchmark("training_start", "a step of training until it can run", "cpu", training_start.measure_rows),
    Benchmark("eprop", "a step of learning by e-prop of a recurrent network", "cpu", training.measure_eprop_rows),
    Benchmark("gpu_overhead", "one call over 1024 floats on a GPU", "gpu", gpu_overhead.measure_rows),
    Benchmark("gpu_graph", "launches by the host in each run of a jitted chain", "gpu", gpu_graph.measure_rows),
    Benchmark("gpu_start", "a new process, up to a kernel's first result", "gpu", gpu_start.measure_rows),
    Benchmark("gpu_csr", "spikes times a sparse matrix", "gpu", gpu_examples.measure_csr_rows),
    Benchmark("gpu_lif", "threshold and reset of neurons", "gpu", gpu_examples.measure_lif_rows),
    Benchmark("gpu_vmap", "a batch of 100 over 1024 floats on a GPU", "gpu", gpu_vmap.measure_rows),
    Benchmark("gpu_build", "a CUDA vector-add from its source text to a result", "gpu", build.measure_gpu_rows),
    Benchmark("gpu_agreement", "our benchmark beside device events and timeit", "gpu", agreement.measure_gpu_rows),
    Benchmark("gpu_tuned", "one call over 1024 floats on a GPU, chosen in three ways", "gpu", tuned.measure_gpu_rows),
    Benchmark("gpu_events", "spikes times a sparse matrix, beside the limit", "gpu", events.measure_gpu_rows),
    Benchmark("gpu_formats", "one in a hundred spikes, times a matrix in each format", "gpu", formats.measure_gpu_rows),
    Benchmark("gpu_plasticity", "a product, and then a change of the weights", "gpu", plasticity.measure_gpu_rows),
    Benchmark("gpu_delays", "spikes through synapses with a delay each", "gpu", delays.measure_gpu_rows),
    Benchmark("gpu_drawn", "one in a hundred spikes, times a matrix that is drawn", "gpu", drawn.measure_gpu_rows),
    Benchmark("gpu_sheet", "synapses that are drawn by distance", "gpu", sheet.measure_gpu_rows),
    Benchmark("gpu_microcircuit", "wall time over the network's time, PD14", "gpu", gpu_microcircuit.measure_rows),
    Benchmark(
        "gpu_microcircuit_statistics", "how PD14 fires, of ten seeds", "gpu", microcircuit_statistics.measure_gpu_rows
    ),
    Benchmark("gpu_flywire", "wall time over the network's time, a connectome", "gpu", flywire.measure_gpu_rows),
    Benchmark("gpu_hpc", "wall time over the network's time, 9 000 plastic inputs", "gpu", hpc.measure_gpu_rows),
    Benchmark("gpu_reward", "an hour of late rewards", "gpu", plastic_networks.measure_gpu_reward_rows),
    Benchmark("gpu_sweeps", "many runs of a network side by side, on a GPU", "gpu", sweeps.measure_gpu_rows),
    Benchmark("gpu_energy", "the energy of a synaptic event of PD14", "gpu", energy.measure_rows),
    Benchmark("gpu_engine", "CUBA and COBA in one kernel, and where a step goes", "gpu", gpu_engine.measure_rows),
    Benchmark("gpu_several", "a step of large networks on 1, 2 and 4 GPUs", "gpu", gpu_several.measure_rows),
    Benchmark("gpu_plastic", "a step with plastic synapses, over one without", "gpu", gpu_plastic.measure_rows),
    Benchmark("gpu_training", "a step of training of a recurrent network", "gpu", training.measure_gpu_rows),
    Benchmark("gpu_training_start", "a step of training until it can run", "gpu", training_start.measure_gpu_rows),
    Benchmark("gpu_networks", "a step of CUBA and COBA, on a GPU", "gpu", networks.measure_gpu_rows),
)
