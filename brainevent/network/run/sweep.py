# SPDX-License-Identifier: Apache-2.0
"""`swept`: the elements of a sweep, run side by side: each by an engine that a thread has for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..engine import Engine
from ..engines import beside
from ..plan.threads import threads_for
from .chunks import chunks, needs_no_chunks
from .collected import Collected
from .elements import Element, Elements
from .pace import Pace, Stop
from .requests import Request, wanted
from .result import Result

__all__ = ["swept"]

Array = Any


def swept(
    backend: str,
    elements: Elements,
    requests: tuple[Request, ...],
    steps: int,
    threads: int | None,
    stop: Stop,
    update: Callable[[int], object],
) -> list[Result]:
    """Run all elements for some steps; return what each recorded. `update` is told how many steps more ran."""
    if threads is not None and backend != "numba":
        raise NetworkError(
            f"sweep: threads is an option of backend='numba', but the backend is {backend!r}; leave it out"
        )
    queue = _Queue(elements, requests, steps, stop, update)
    count = threads_for(len(elements), threads) if backend == "numba" else 1
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

    def __init__(
        self, elements: Elements, requests: tuple[Request, ...], steps: int, stop: Stop, update: Callable[[int], object]
    ):
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
                result = worker.run(self.elements[k], self.requests, self.steps, self.stop)
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                self.closed, self._errors[k] = True, error
                return
            self._results[k] = result

    def all_results(self) -> list[Result]:
        """Return the results of all elements; of those that did not begin, results without steps."""
        if self._errors:
            k = min(self._errors)
            error = self._errors[k]
            error.add_note(f"in element {k} of the sweep")
            raise error
        return [self._results[k] if k in self._results else self._of_none() for k in range(len(self.elements))]

    def _of_none(self) -> Result:
        now = self.elements.now
        collected = Collected(now.weights.plan, self.requests, int(self.elements.first), self.steps)
        return collected.result(interrupted=True)

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

    def __init__(self, backend: str, update: Callable[[int], object]):
        self._backend, self._update = backend, update
        self._engine: Engine | None = None
        self._params: dict[str, dict[str, Array]] = {}
        self._pace = Pace()

    def run(self, element: Element, requests: tuple[Request, ...], steps: int, stop: Stop) -> Result:
        """Run an element."""
        engine = self._prepared(element)
        collected = Collected(element.plan, requests, engine.step, steps)
        fixed = steps if needs_no_chunks(engine, requests, element.inputs) else None
        with collected.until_full(lambda: engine.step):
            for part in chunks(engine, self._pace, steps, fixed, wanted(requests), element.inputs, stop):
                collected.add(part)
                self._update(part.steps)
                if collected.full:
                    break
        return collected.result(interrupted=collected.ran < steps)

    def _prepared(self, element: Element) -> Engine:
        """Return an engine with an element in it: the last one, if it differs in nothing that cannot be set."""
        engine, plan = self._engine, element.plan
        if engine is None or [p.key for p in engine.plan.populations] != [p.key for p in plan.populations]:
            self._engine = None  # given back before more is taken
            engine = self._engine = beside(plan, self._backend)
            self._params = {p.name: dict(p.params) for p in plan.populations}
        elif engine.plan.synapses is not plan.synapses or engine.plan.quanta != plan.quanta:
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
