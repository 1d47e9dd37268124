# SPDX-License-Identifier: Apache-2.0
"""Make choices that were read during tracing part of every JIT cache key, without dropping compiled programs.

Code that reads a choice while a function is traced or lowered *asks* for it here. The JIT key holds the number of a
state: a set of questions with the answers that were given in it. While all these answers are the same, so is the
state. Otherwise an earlier state with the same answers becomes current again, or a new one begins. So a change that
alters no answer causes no retrace, and a change back finds the earlier compilation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import jax

__all__ = ["ask", "block_choices", "refresh", "restored", "within_block"]

_State = dict[Hashable, Hashable]  # the questions that were asked in it, with their answers

_number = jax.make_user_context(0)  # of the current state: one for the process
_block = jax.make_user_context(())  # what `with` blocks chose: one value per thread
_lock = threading.RLock()
_states: dict[int, _State] = {0: {}}  # by number, the current one last
_answers: dict[Hashable, Callable[[], Hashable]] = {}


def ask(question: Hashable, answer: Callable[[], Hashable]) -> None:
    """Note that a function being traced depends on `answer()`; later changes of it retrace that function."""
    with _lock:
        _answers.setdefault(question, answer)
        current = _states[next(reversed(_states))]
        if question not in current:
            current[question] = answer()


def refresh(topic: Hashable = None) -> None:
    """Bring the JIT key up to date after something that `ask` was asked about may have changed.

    `topic` is the affected question, or the beginning of the affected questions, if known.
    """
    with _lock:
        current = _states[next(reversed(_states))]
        asked = [item for item in current.items() if topic is None or _topic(item[0]) == topic]
        changed = [question for question, answer in asked if _answers[question]() != answer]
        if not changed:
            return
        fitting = [(sum(q in state for q in changed), i) for i, state in enumerate(_states.values()) if _holds(state)]
        # The state with most answers has the compilations that are needed; among equals, the one left last.
        number = list(_states)[max(fitting)[1]] if fitting else len(_states)
        _states[number] = _states.pop(number, {})
        _number.set_global(number)


def _topic(question: Hashable) -> Hashable:
    return question[0] if isinstance(question, tuple) else question


def _holds(state: _State) -> bool:
    return all(_answers[question]() == answer for question, answer in state.items())


def block_choices() -> tuple[tuple[str, str], ...]:
    """Return what the `with` blocks around this point of this thread chose: pairs of key and value."""
    return _block.value


@contextmanager
def restored(choices: tuple[tuple[str, str], ...]) -> Iterator[None]:
    """Bring back what the blocks around an earlier point chose, for what follows from that point."""
    with _block(choices):
        yield


@contextmanager
def within_block(key: str, value: str) -> Iterator[None]:
    """Choose `value` for `key` in this thread until the block ends."""
    with _block(tuple(sorted({**dict(_block.value), key: value}.items()))):
        yield
