# SPDX-License-Identifier: Apache-2.0
"""The structures that kernels of networks read, as dtypes: their fields are those of the texts beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["DRAWN", "GIVEN", "LAID", "LISTED", "ROWS", "SAMPLE", "common_dtype", "filled", "net_dtype"]
__all__ += ["population_dtype"]

_WORD, _LONG, _FLOAT, _SIGNED = np.uint32, np.uint64, np.float32, np.int32


def _dtype(*fields: tuple[str, Any] | tuple[str, Any, tuple[int, ...]]) -> np.dtype[Any]:
    return np.dtype(list(fields), align=True)


def _words(names: str) -> list[tuple[str, Any]]:
    return [(name, _WORD) for name in names.split()]


def _longs(names: str) -> list[tuple[str, Any]]:
    return [(name, _LONG) for name in names.split()]


SAMPLE = _dtype(*_words("population word every width before spare"), *_longs("out columns"))

GIVEN = _dtype(
    *_words("sources source_begin target_begin blocks all_sources layout wide cell_shift delay_shift reach"),
    *_words("owners share target_bytes weight_bytes delay_bytes"),
    ("weight", _SIGNED),
    *_words("delay weight_mask"),
    *_longs("starts targets weights delays"),
)

_LAW = _dtype(("kind", _WORD), *((name, _FLOAT) for name in ("a", "b", "low", "high")), ("span", _WORD))

DRAWN = _dtype(
    *_words("kind rows ends skip by_target number"),
    *_words("key0 key1 delay_key0 delay_key1 source_key0 source_key1"),
    *_words("own_weights own_delays"),
    *_longs("total"),
    ("weights", _LAW),
    ("delays", _LAW),
    ("scale", _FLOAT),
    *_words("times"),
    *_longs("counts turns loads totals limits"),
)

ROWS = _dtype(*_words("start_bytes slot_bits"), *_longs("used rows starts bases synapses"))

LAID = _dtype(*_words("sources blocks layout words inside start_bytes"), *_longs("used widths totals ends starts"))

LISTED = _dtype(
    *_words("blocks capacity populations steps first spare"),
    *_longs("spikes ends ranges tally cursors unordered ordered at"),
)


def population_dtype(receptors: int, params: int, draws: int) -> np.dtype[Any]:
    """Return the dtype of `Population`."""
    return _dtype(
        *_words("begin size kind flags key0 key1"),
        ("param", _WORD, (params + 1,)),
        ("input_row", _WORD, (receptors + 1,)),
        ("input_item", _WORD, (receptors + 1,)),
        ("quantum", _FLOAT, (receptors + 1,)),
        ("input", _LONG, (receptors + 1,)),
        ("counted", _LONG, (draws + 1,)),
        *_longs("rates shown"),
    )


def common_dtype(receptors: int, params: int) -> np.dtype[Any]:
    """Return the dtype of `Common`."""
    return _dtype(
        *_words("begin size flags key0 key1"),
        ("quantum", _FLOAT, (receptors + 1,)),
        ("p", _WORD, (params + 1,)),
    )


def net_dtype(receptors: int, params: int, common: int) -> np.dtype[Any]:
    """Return the dtype of `Net` with so much in `common`."""
    return _dtype(
        *_words("blocks per slots cells sources populations samples copies capacity turn"),
        *_words("delay_shift cell_shift cell_mask weight_shift row_words list_size slot_bits slot_mask more"),
        ("reach", _WORD, (receptors + 1,)),
        ("plain", _WORD),
        ("spare", _WORD, (receptors % 2 + 1,)),
        *_longs("nanoseconds population sample scalars arrays rows starts bases synapses states ring packets list"),
        *_longs("spikes counts ends begin clocks"),
        ("common", common_dtype(receptors, params), (common,)),
    )


def filled(dtype: np.dtype[Any], **values: Any) -> Any:
    """Return one structure with all its values."""
    one = np.zeros((), dtype)
    for name, value in values.items():
        one[name] = value
    return one
