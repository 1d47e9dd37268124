# SPDX-License-Identifier: Apache-2.0
"""Make choices that were read while tracing part of every JIT cache key, and drop no compilation.

Whoever reads a choice while a function is traced or lowered *asks* for it here. The first answer to a question is its
baseline. The value in the JIT key is the set of questions whose answer differs from the baseline now. So a change
that alters no answer retraces nothing, and a change back finds the earlier compilation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import jax

__all__ = ["ask", "block_choices", "refresh", "within_block"]

_deviations = jax.make_user_context(None)  # the answers that differ from their baseline: one value for the process
_block = jax.make_user_context(())  # what `with` blocks chose: one value per thread
_lock = threading.RLock()
_baseline: dict[Hashable, Hashable] = {}
_answers: dict[Hashable, Callable[[], Hashable]] = {}


def ask(question: Hashable, answer: Callable[[], Hashable]) -> None:
    """Note that a function being traced depends on `answer()`; later changes of it retrace that function."""
    with _lock:
        if question not in _answers:
            _answers[question] = answer
            _baseline[question] = answer()


def refresh() -> None:
    """Bring the JIT key up to date after something that `ask` was asked about may have changed."""
    with _lock:
        now = ((question, answer()) for question, answer in _answers.items())
        changed = frozenset((question, value) for question, value in now if value != _baseline[question])
        if (changed or None) != _deviations.get_global():
            _deviations.set_global(changed or None)


def block_choices() -> tuple[tuple[str, str], ...]:
    """Return what the `with` blocks around this point of this thread chose: pairs of key and value."""
    return _block.value


@contextmanager
def within_block(key: str, value: str) -> Iterator[None]:
    """Choose `value` for `key` in this thread until the block ends."""
    with _block(tuple(sorted({**dict(_block.value), key: value}.items()))):
        yield
