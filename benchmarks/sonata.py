# SPDX-License-Identifier: Apache-2.0
"""How long do 10 million edges of SONATA files take to read and write? `python benchmarks/sonata.py [EDGES]`.

It needs h5py. Each edge has a weight, a delay and a number of synapses of its own; sources are in no order. It prints
the seconds and the processor time of several reads, of a plain read of the same datasets with h5py, and of writing a
simulation that has these edges.
"""

import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

import brainevent as be

_NEURONS = 100_000


def write_files(folder: Path, count: int) -> Path:
    """Write 100 000 neurons with this many edges, and return the path of their config."""
    rng, exc = np.random.default_rng(1), _NEURONS * 4 // 5
    with h5py.File(folder / "nodes.h5", "w") as file:
        file["nodes/v1/node_type_id"] = np.where(np.arange(_NEURONS) < exc, 100, 101)
    model = "point_neuron nest:iaf_psc_alpha"
    (folder / "nodes.csv").write_text(f"node_type_id model_type model_template\n100 {model}\n101 {model}\n")
    source = rng.integers(0, _NEURONS, count)
    with h5py.File(folder / "edges.h5", "w") as file:
        group = file.create_group("edges/v1_v1")
        for end, ids in (("source", source), ("target", np.sort(rng.integers(0, _NEURONS, count)))):
            group[f"{end}_node_id"] = ids.astype(np.uint64)
            group[f"{end}_node_id"].attrs["node_population"] = "v1"
        group["edge_type_id"] = np.where(source < exc, 100, 101).astype(np.uint32)
        group["edge_group_id"] = np.zeros(count, np.uint16)
        group["edge_group_index"] = np.arange(count, dtype=np.uint32)
        group["0/syn_weight"] = np.where(source < exc, 1.0, -4.0) * rng.random(count)
        group["0/delay"] = rng.integers(10, 30, count) / 10
        group["0/nsyns"] = rng.integers(1, 5, count)
    (folder / "edges.csv").write_text("edge_type_id model_template\n100 static_synapse\n101 static_synapse\n")
    kinds = ("node", "edge")
    networks = {f"{k}s": [{f"{k}s_file": f"{k}s.h5", f"{k}_types_file": f"{k}s.csv"}] for k in kinds}
    (folder / "config.json").write_text(json.dumps({"networks": networks}))
    return folder / "config.json"


def read_plainly(folder: Path) -> int:
    """Read all datasets of the edges with h5py, and return their bytes."""
    found = 0
    with h5py.File(folder / "edges.h5") as file:
        names: list[str] = []
        file.visititems(lambda name, one: names.append(name) if isinstance(one, h5py.Dataset) else None)
        for name in names:
            found += file[name][()].nbytes
    return found


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = write_files(folder, count)
        copies = (folder / str(number) for number in itertools.count())
        simulation = be.read_sonata(config).build(backend="interpreted")
        for what, call in (
            ("h5py", lambda: read_plainly(folder)),
            ("read_sonata", lambda: be.read_sonata(config)),
            ("write_sonata", lambda: be.write_sonata(simulation, next(copies))),
        ):
            for _ in range(5):
                wall, cpu = time.perf_counter(), time.process_time()
                call()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                print(
                    f"{what:13}{count} edges in {wall:.2f} s, processor time {cpu:.2f} s, {count / wall / 1e6:.1f} M/s"
                )


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000)
