# SPDX-License-Identifier: Apache-2.0
"""A step of training of a recurrent network of the shape of speech data, by backpropagation or e-prop; and by hand."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import last_line

# Hidden neurons, samples of a batch, and steps.
_CPU = ((256, 32, 250), (64, 16, 50))
_GPU = ((256, 32, 1000), (256, 256, 250), (256, 256, 1000), (1024, 32, 1000), (1024, 256, 250), (1024, 256, 1000))
_EPROP = ((256, 4, 50), (64, 16, 50))
_UNROLLED = {"cpu": [1, 4], "gpu": [1, 4, 8]}
_OURS = {"cpu": ["jax", "numba"], "gpu": ["jax", "cuda"]}
_UNITS = (("seconds", "ms a step", 1e3), ("bytes", "MiB", 2**-20))
_PLAIN, _BY_HAND = "backend jax", "a scan by hand"
_PEERS = ("spyx",)
_TORCH = ("torch", "spikingjelly")  # on a GPU
_MEMORY = 0.6  # of the loop by hand, at most, in native code
_TRACES = 0.1  # of the time of traces that are followed step by step, at most, in native code


def measure_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """On a CPU."""
    return _rows("training", options, "cpu", _CPU)


def measure_gpu_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """On a GPU."""
    return _rows("gpu_training", options, "gpu", _GPU)


def measure_eprop_rows(options: Options) -> Iterator[Row | Failed]:
    """By e-prop, on a CPU."""
    rounds = options.choose_rounds(full=7, quick=3)
    for hidden, batch, steps in _EPROP:
        size = f"{hidden} neurons, {batch} samples, {steps} steps"
        arguments = {"hidden": hidden, "batch": batch, "steps": steps, "rounds": rounds, "ours": _OURS["cpu"]}
        try:
            found = run_probe("eprop", arguments, platform="cpu")
        except ProbeError as error:
            yield Failed(size, last_line(error))
            continue
        for what, unit, scale in _UNITS:
            ways = {name: [scale * x for x in samples] for name, samples in found[what].items()}
            for name, samples in ways.items():
                by_hand = {"baseline": ways[_BY_HAND], "ratio_to": _BY_HAND} if name != _BY_HAND else {}
                bar = Bar(_TRACES if what == "seconds" else _MEMORY) if name == f"backend {_OURS['cpu'][-1]}" else None
                yield make_row("eprop", f"{size}: {name}", unit, samples, bar=bar, **by_hand)


def _rows(
    benchmark: str, options: Options, platform: Literal["cpu", "gpu"], sizes: Sequence[tuple[int, int, int]]
) -> Iterator[Row | Absent | Failed]:
    rounds, absent = options.choose_rounds(full=15, quick=5), dict[str, str]()
    peers = _PEERS if options.peers else ()
    for hidden, batch, steps in sizes:
        size = f"{hidden} neurons, {batch} samples, {steps} steps"
        arguments = {"hidden": hidden, "batch": batch, "steps": steps, "rounds": rounds}
        try:
            ways = {"ours": _OURS[platform], "unrolled": _UNROLLED[platform], "peers": peers}
            found = run_probe("training", arguments | ways, platform=platform)
        except ProbeError as error:
            yield Failed(size, last_line(error))
            continue
        if platform == "gpu" and peers:
            try:
                others = run_probe("training_torch", arguments, platform="cpu")  # JAX leaves the GPU to PyTorch
                found = {key: values | others[key] for key, values in found.items()}
            except ProbeError as error:
                yield Failed(f"{size}: {' and '.join(_TORCH)}", last_line(error))
        absent |= found["absent"]
        yield from _of_size(benchmark, size, found, _most(platform, hidden, batch))
    others = (*_PEERS, *(_TORCH if platform == "gpu" else ()))
    absent |= dict.fromkeys(others, "--no-peers was given") if not options.peers else {}
    yield from (Absent(name, why) for name, why in absent.items())


def _most(platform: str, hidden: int, batch: int) -> float:
    """Return how many times the time of the best loop by hand native code takes at most."""
    if platform == "cpu":
        return 0.35
    return 0.25 if hidden <= 256 else 0.3 if batch <= 32 else 0.4


def _of_size(benchmark: str, size: str, found: Any, most: float) -> Iterator[Row]:
    """Compare times with the fastest loop by hand, and memory with that which needs least."""
    for what, unit, scale in _UNITS:
        ways = {name: [scale * x for x in samples] for name, samples in found[what].items()}
        loops = (name for name in ways if name.startswith(_BY_HAND))
        best = min(loops, key=lambda name: sorted(ways[name])[len(ways[name]) // 2])
        for name, samples in ways.items():
            ours = {"baseline": ways[best], "ratio_to": best} if name != best else {}
            native = Bar(most if what == "seconds" else _MEMORY)
            other = name.startswith((_BY_HAND, *_PEERS, *_TORCH))
            bar = None if other else Bar(1.1) if name == _PLAIN else native
            yield make_row(benchmark, f"{size}: {name}", unit, samples, bar=bar, **ours)
