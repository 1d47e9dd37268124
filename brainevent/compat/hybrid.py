# SPDX-License-Identifier: Apache-2.0
"""Settings of a scheduler that kernels here do not have: they are accepted, and change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HybridConfig", "get_hybrid_config", "init_csr_config"]

_NAMES = (
    "scale conn n_pre n_post batch_size steps spike_sparsity seed warmup force_rebuild verbose_compile show_progress"
)
_OPTIONS = frozenset(_NAMES.split())


@dataclass(frozen=True)
class HybridConfig:
    """Settings of a scheduler for sparse products on GPUs, accepted for programs that set them; nothing reads them.

    `XLACustomKernel.tune` finds what is fastest here.

    Attributes:
        block_size: Threads in a block, a multiple of 32, at most 1024.
        fixed_scatter_blocks: Blocks of a scatter kernel, at least 1.
        tpr_threshold: A row length, at least 0.
        task_nnz: Elements of a task, at least 1.
        benchmark_records: Measurements, which do not count when configurations are compared.

    Raises:
        ValueError: If a setting is out of range.

    Examples:
        >>> import brainevent
        >>> brainevent.HybridConfig(block_size=128).block_size
        128
    """

    block_size: int = 256
    fixed_scatter_blocks: int = 2048
    tpr_threshold: int = 128
    task_nnz: int = 4096
    benchmark_records: tuple[Any, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("block_size", "fixed_scatter_blocks", "tpr_threshold", "task_nnz"):
            if not hasattr(getattr(self, name), "__index__"):
                raise TypeError(f"HybridConfig: {name} is {getattr(self, name)!r}; pass an integer")
        if self.block_size % 32 or not 32 <= self.block_size <= 1024:
            raise ValueError(f"HybridConfig: block_size is {self.block_size}; pass a multiple of 32, at most 1024")
        for name, least in (("fixed_scatter_blocks", 1), ("tpr_threshold", 0), ("task_nnz", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"HybridConfig: {name} is {getattr(self, name)}; pass at least {least}")


_DEFAULT = HybridConfig()


def get_hybrid_config() -> HybridConfig:
    """Return the default configuration, which nothing reads.

    Returns:
        Always the same object.

    Examples:
        >>> import brainevent
        >>> brainevent.get_hybrid_config().block_size
        256
    """
    return _DEFAULT


def init_csr_config(
    *, save: bool = True, device_kind: str | None = None, candidates: Sequence[HybridConfig] = (), **options: Any
) -> HybridConfig:
    """Warn that this call changes nothing, and return the default configuration.

    `XLACustomKernel.tune` finds what is fastest here.

    Args:
        save: Ignored.
        device_kind: Ignored.
        candidates: Ignored.
        **options: The options of other releases, such as `scale` and `seed`. Ignored.

    Returns:
        What `get_hybrid_config` returns.

    Raises:
        TypeError: If an option has an unknown name.

    Examples:
        >>> import warnings
        >>> import brainevent
        >>> with warnings.catch_warnings(action="ignore"):
        ...     brainevent.init_csr_config() is brainevent.get_hybrid_config()
        True
    """
    if unknown := options.keys() - _OPTIONS:
        raise TypeError(f"init_csr_config: unknown option {sorted(unknown)[0]!r}; known: {', '.join(sorted(_OPTIONS))}")
    message = "init_csr_config does nothing: kernels here have no such constants; use brainevent.csrmv_p.tune(...)"
    warnings.warn(message, stacklevel=2)
    return _DEFAULT
