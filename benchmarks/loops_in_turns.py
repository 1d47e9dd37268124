# SPDX-License-Identifier: Apache-2.0
"""Loops of copies of this package on a CPU, in turns: what a change gains although other programs run.

    $ python benchmarks/loops_in_turns.py cuba 4000 4000     # this copy: XLA's loop, the native one, the engine
    $ python benchmarks/loops_in_turns.py coba 400000 40 --threads 2 --against ../main
    $ python benchmarks/loops_in_turns.py brainpy 400000 40 --against ../main   # brainpy.state, if it is installed

Each copy runs in a process of its own, which waits for its turn. A line has the shortest time and the median of a step,
in microseconds, on the clock and of the processor, which counts all threads; and its ratio to the first line.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()


def measured(name, neurons, steps, threads):
    """Return what a copy measures, by its name: functions that run all steps."""
    import jax

    import brainevent as be
    from examples.networks import cuba as of_cuba

    be.config.set_numba_parallel(threads > 1, num_threads=threads)
    if name == "brainpy":
        import gpu_loops

        (xla, native), arguments, _, is_fused = gpu_loops.brainpy(neurons, steps)
    else:
        import fused_programs

        (xla, native), arguments, _, is_fused = fused_programs.compiled(*vars(fused_programs)[name](neurons, steps))
    assert is_fused, "the loop is left to XLA, as more than one thread is faster"
    programs = {"XLA": lambda: xla(*arguments), "native": lambda: native(*arguments)}
    if name == "cuba":
        network = of_cuba.network(n=neurons)
        names = [f"{population.name}.spikes" for population in network.populations]
        simulation = network.build(seed=1)
        programs["engine"] = lambda: simulation.run(steps, record=names)
    for run in programs.values():
        jax.block_until_ready(run())
    return {each: lambda run=run: jax.block_until_ready(run()) for each, run in programs.items()}


def wait_for_turns(arguments):
    """Run what is named on standard input, and answer with the times of a step."""
    programs = measured(arguments.program, arguments.neurons, arguments.steps, arguments.threads)
    print("ready", *programs, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter(), time.process_time()
        programs[line.strip()]()
        taken = time.perf_counter() - begin[0], time.process_time() - begin[1]
        print(*(1e6 * seconds / arguments.steps for seconds in taken), flush=True)


class Copy:
    """A copy of this package in a process of its own."""

    def __init__(self, folder, given):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(folder / "benchmarks")])}
        command = [sys.executable, str(HERE), *given, "--waits"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )
        self.programs = self._answer().split()[1:]

    def _answer(self):
        while True:
            line = self._process.stdout.readline()
            assert line, "a copy has ended"
            if line.startswith("ready") or line[0].isdigit():
                return line

    def run(self, program):
        """Return the times of a step of a program, on the clock and of the processor."""
        self._process.stdin.write(program + "\n")
        self._process.stdin.flush()
        return [float(word) for word in self._answer().split()]

    def end(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def main(arguments, given):
    """Let all programs of all copies take turns."""
    folders = [HERE.parents[1], *(Path(folder).resolve() for folder in arguments.against)]
    copies = [Copy(folder, given) for folder in folders]
    found = {(place, program): [] for place, copy in enumerate(copies) for program in copy.programs}
    for _ in range(arguments.rounds):
        for (place, program), times in found.items():
            times.append(copies[place].run(program))
    for copy in copies:
        copy.end()
    words = f"{arguments.program}, {arguments.neurons:,} neurons, {arguments.threads} threads"
    print(f"{words}, {arguments.rounds} rounds, load average {os.getloadavg()[0]:.1f}")
    first = None
    for (place, program), times in found.items():
        shortest, median = np.min(times, axis=0), np.median(times, axis=0)
        first = shortest if first is None else first
        print(
            f"  {folders[place].name:12} {program:7} clock {shortest[0]:9.2f} ({shortest[0] / first[0]:4.2f}), "
            f"median {median[0]:9.2f}   processor {shortest[1]:9.2f} ({shortest[1] / first[1]:4.2f}), "
            f"median {median[1]:9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("neurons", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--against", action="append", default=[], help="folders of further copies")
    parser.add_argument("--waits", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.waits:
        wait_for_turns(parsed)
    else:
        numbers = [parsed.program, str(parsed.neurons), str(parsed.steps), "--threads", str(parsed.threads)]
        main(parsed, numbers)
