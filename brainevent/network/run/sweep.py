# SPDX-License-Identifier: Apache-2.0
"""`swept`: the elements of a sweep, run side by side: each by a thread of its own, or together on a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...event.room import check_host_room
from ..engine import Engine, Keyed
from ..engines import beside, beside_on_gpu, engine_name
from ..plan.threads import threads_for
from .chunks import chunks, needs_no_chunks
from .collected import Collected
from .elements import Element, Elements
from .pace import Pace, Stop
from .recorded import Wanted
from .requests import Request, of_other_synapses, wanted
from .result import Result

__all__ = ["swept"]

Array = Any
Update = Callable[[int], object]
_BYTES = 2**26  # of inputs and samples of one element that a GPU holds at once


def swept(
    engine: Engine,
    elements: Elements,
    requests: tuple[Request, ...],
    steps: int,
    threads: int | None,
    stop: Stop,
    update: Update,
) -> list[Result]:
    """Run all elements of a simulation with an engine; return what each recorded. `update` is told of steps."""
    backend = engine_name(engine)
    if threads is not None and backend != "numba":
        raise NetworkError(
            f"sweep: threads is an option of backend='numba', but the backend is {backend!r}; leave it out"
        )
    queue = _Queue(elements, requests, steps, stop, update)
    on_several = len(getattr(engine, "devices", ())) > 1  # which raises
    if backend == "cuda" and (on_several or not engine.plan.plastic):
        queue.run_on_gpu(engine)
        return queue.all_results()
    count = threads_for(len(elements), threads) if backend == "numba" else 1
    if elements.sweeps_weights:
        each = elements.now.weights.plan.synapse_bytes
        what = f"the synapses of {count} elements at once"
        check_host_room("sweep", what, count * each, "pass fewer threads=, or elements with the same weights", each)
    workers = [
        threading.Thread(target=queue.work, args=(backend,), name=f"brainevent sweep {k}", daemon=True)
        for k in range(1, count)
    ]
    try:
        for worker in workers:
            worker.start()
        queue.work(backend)
    finally:
        queue.closed = True
        for worker in workers:
            if worker.ident is not None:
                worker.join()
    return queue.all_results()


class _Queue:
    """The elements that have not run yet, for several threads, and the results of those that have."""

    def __init__(self, elements: Elements, requests: tuple[Request, ...], steps: int, stop: Stop, update: Update):
        self.elements, self.requests, self.steps, self.stop, self._update = elements, requests, steps, stop, update
        self.closed = False  # no element shall begin
        self._lock, self._next = threading.Lock(), 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def work(self, backend: str) -> None:
        """Run elements until none is left, or one fails."""
        worker = _Worker(backend, self._advanced)
        while (k := self._taken()) is not None:
            try:
                element, requests = self.elements[k], self.requests
                if self.elements.redraws:
                    requests = of_other_synapses(element.plan, requests)
                result = worker.run(element, requests, self.steps, self.stop)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                self.closed, self._errors[k] = True, error
                return
            self._results[k] = result

    def run_on_gpu(self, engine: Engine) -> None:
        """Run elements on the GPU of an engine, as many at a time as it has room for."""
        side_by_side = beside_on_gpu(engine, len(self.elements))
        width, count = len(side_by_side.engines), len(self.elements)
        for begin in range(0, count, width):
            if self.stop.pressed:
                break
            some = [self.elements[k] for k in range(begin, min(begin + width, count))]
            self._results |= dict(enumerate(self._wave(side_by_side, some), begin))

    def _wave(self, side_by_side: Any, some: list[Element]) -> list[Result]:
        """Run some elements to their end."""
        engines = [side_by_side.take(k, one.plan, one.params, one.state) for k, one in enumerate(some)]
        collected = [Collected(one.plan, self.requests, int(one.state.step), self.steps) for one in some]
        asked, most, done = wanted(self.requests), self._chunk(some[0]), 0
        while done < self.steps and not self.stop.pressed:
            count = min(most, self.steps - done)
            inputs = [{place: x[done : done + count] for place, x in one.inputs.items()} for one in some]
            parts = side_by_side.run(engines, count, asked, inputs, self.stop.asked)
            for whole, part in zip(collected, parts, strict=True):
                if part.steps and not whole.full and whole.ran == done:
                    whole.add(part)
                    self._update(part.steps)
            done += count
        return [whole.result(interrupted=whole.ran < self.steps) for whole in collected]

    def _chunk(self, element: Element) -> int:
        """Return how many steps of inputs and samples a GPU holds at once."""
        row = sum(x.itemsize * x.shape[1] for x in element.inputs.values())
        row += sum(4 * r.sample.neurons.size // r.sample.every for r in self.requests if r.sample is not None)
        return max(1, _BYTES // row) if row else self.steps

    def all_results(self) -> list[Result]:
        """Return the results of all elements; of those that did not begin, results without steps."""
        if self._errors:
            k = min(self._errors)
            error = self._errors[k]
            error.add_note(f"in element {k} of the sweep")
            raise error
        return [self._results[k] if k in self._results else self._of_none() for k in range(len(self.elements))]

    def _of_none(self) -> Result:
        plan = self.elements.now.weights.plan
        return Collected(plan, self.requests, self.elements.first, self.steps).result(interrupted=True)

    def _taken(self) -> int | None:
        """Return an element that nobody runs; None if there is none."""
        with self._lock:
            if self.closed or self.stop.pressed or self._next == len(self.elements):
                return None
            self._next += 1
            return self._next - 1

    def _advanced(self, steps: int) -> None:
        with self._lock:
            self._update(steps)


class _Worker:
    """An engine that runs one element after another, in one thread."""

    def __init__(self, backend: str, update: Update):
        self._backend, self._update = backend, update
        self._engine: Engine | None = None
        self._params: dict[str, dict[str, Array]] = {}
        self._pace = Pace()

    def run(self, element: Element, requests: tuple[Request, ...], steps: int, stop: Stop) -> Result:
        """Run an element."""
        engine = self._prepared(element)
        collected, asked = Collected(element.plan, requests, engine.step, steps), wanted(requests)
        fixed = steps if needs_no_chunks(engine, requests, element.inputs) else None
        with collected.until_full(lambda: engine.step):
            self._run(engine, element, collected, asked, fixed, steps, stop)
        return collected.result(interrupted=collected.ran < steps)

    def _run(
        self,
        engine: Engine,
        element: Element,
        collected: Collected,
        asked: Wanted,
        fixed: int | None,
        steps: int,
        stop: Stop,
    ) -> None:
        for part in chunks(engine, self._pace, steps, fixed, asked, element.inputs, stop):
            collected.add(part)
            self._update(part.steps)
            if collected.full:
                break

    def _prepared(self, element: Element) -> Engine:
        """Return an engine with an element in it: the last one, if it differs in nothing that cannot be set."""
        engine, plan = self._engine, element.plan
        same = engine is not None and engine.plan.quanta == plan.quanta and engine.plan.has_synapses_of(plan)
        keyed = engine is not None and [p.key for p in engine.plan.populations] == [p.key for p in plan.populations]
        if engine is not None and same and not keyed and isinstance(engine, Keyed):
            engine.set_keys(plan)
        elif engine is None or not keyed:
            self._engine = None  # given back before more is taken
            engine = self._engine = beside(plan, self._backend)
            self._params = {name: dict(params) for name, params in plan.params.items()}
        elif not same:
            engine.set_weights(plan, element.state)
        for name, values in element.params.items():
            for key, value in values.items():
                if not _same(self._params[name][key], value):
                    engine.set(name, key, value)
                    self._params[name][key] = value
        engine.load(element.state)
        return engine


def _same(one: Array, other: Array) -> bool:
    """Say whether two parameters have the same bits."""
    return one is other or np.asarray(one).tobytes() == np.asarray(other).tobytes()
