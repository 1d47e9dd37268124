# SPDX-License-Identifier: Apache-2.0
"""Processes that are threads of this one, each with pretended GPUs: an engine that runs one network in all of them."""

import numpy as np
from several_on_cpu import PretendPeer

from brainevent.network.gpu.several.meeting import together
from brainevent.network.hosts.engine import Hosts, HostsEngine
from brainevent.network.hosts.processes import Processes
from brainevent.network.hosts.shares import shares_of_gpus
from brainevent.network.plan.owned import Sharing


class JoinedThread(Processes):
    """One of several processes, which gathers by way of a meeting of threads."""

    def __init__(self, number, count):
        self.number, self.count, self.meeting = number, count, None
        self.seconds, self.gathers, self.patience, self._lost = 0.0, 0, 10.0, ""

    def gathered(self, words):
        self.gathers += 1
        return np.array(self.meeting.of_all(self.number, words.copy()))


class SamePeer(PretendPeer):
    """A pretended GPU that is that of all processes, so that messages go through the hosts."""

    identity = (1, 2)


def edges_of(plan, count, placed=None):
    """Return equal shares of populations among GPUs, but for those that are placed."""
    placed = placed or {}
    return {
        p.name: np.where(np.arange(count + 1) <= placed[p.name], 0, p.size)
        if p.name in placed
        else np.arange(count + 1, dtype=np.int64) * p.size // count
        for p in plan.populations
    }


class Joined:
    """An engine of a plan in some processes; what one of them returns or raises, all do.

    `gpus` says how many GPUs each process has; None for one each. `placed` says which GPU owns a population.
    """

    def __init__(self, plan, count=2, *, gpus=None, placed=None, blocks=2, shared_bytes=None, **options):
        apiece = [1] * count if gpus is None else gpus
        self.plan, edges = plan, edges_of(plan, sum(apiece), placed)
        self.processes = [JoinedThread(number, count) for number in range(count)]
        self.devices = [SamePeer(number, **options) for number in range(sum(apiece))]

        def made(number):
            shares = shares_of_gpus(number, apiece, edges)
            devices = [self.devices[gpu.number] for gpu in shares.gpus]
            hosts = Hosts(self.processes[number], shares, Sharing(shares.own, 1), devices)
            return HostsEngine(plan, hosts=hosts, blocks=blocks, shared_bytes=shared_bytes)

        self.engines = self._all(made)

    def _all(self, act):
        names = [f"process {one.number}" for one in self.processes]

        def go(number, meeting):
            self.processes[number].meeting = meeting
            try:
                return act(number), None
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits
                return None, error

        found = together(names, go)
        errors = [error for _, error in found if error is not None]
        if errors:
            assert len(errors) == len(found), errors
            self.errors = errors
            raise errors[0]
        return [one for one, _ in found]

    @property
    def parts(self):
        """The engines of the neurons that GPUs own."""
        return [gpu.engine for engine in self.engines for gpu in engine._own.gpus]

    @property
    def step(self):
        return self.engines[0].step

    @property
    def state(self):
        return self._all(lambda number: self.engines[number].state)[-1]

    def load(self, state):
        self._all(lambda number: self.engines[number].load(state))

    def set(self, population, param, value):
        self._all(lambda number: self.engines[number].set(population, param, value))

    def set_weights(self, plan, state):
        self._all(lambda number: self.engines[number].set_weights(plan, state))
        self.plan = plan

    def run(self, steps, wanted, inputs, stopped=lambda: False):
        return self._all(lambda number: self.engines[number].run(steps, wanted, inputs, stopped))[-1]
