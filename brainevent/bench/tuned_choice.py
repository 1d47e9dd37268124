# SPDX-License-Identifier: Apache-2.0
"""`TunedChoice`: which kernel was fastest for operands of some types."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

from ..typing import PyTree

__all__ = ["TunedChoice", "key_of"]


@dataclass(frozen=True)
class TunedChoice:
    """The fastest kernel of an operator for operands of some types, and the fastest variant of each backend.

    Attributes:
        operator: The name of the operator.
        platform: The platform.
        device: The device.
        shapes: The types of the operands.
        versions: The versions of the packages.
        content: A hash of the operator's kernels.
        params: The keyword arguments of the call.
        backend: The fastest backend.
        variants: Pairs of a backend and the name of its fastest variant.
        seconds: The time of a call.

    Examples:
        >>> import brainevent
        >>> texts = ["double", "cpu", "cpu", "float32[3]", "jax 0.11", "", ""]
        >>> choice = brainevent.TunedChoice(*texts, "numba", (("numba", "block=128"),), 1e-6)
        >>> choice.variant
        'block=128'
        >>> import dataclasses, json
        >>> brainevent.TunedChoice.from_json(json.loads(json.dumps(dataclasses.asdict(choice)))) == choice
        True
    """

    operator: str
    platform: str
    device: str
    shapes: str
    versions: str
    content: str
    params: str
    backend: str
    variants: tuple[tuple[str, str], ...]  # pairs of a backend and the name of its variant
    seconds: float

    @property
    def variant(self) -> str:
        """The name of the fastest variant, such as "block=128", or an empty string."""
        return dict(self.variants).get(self.backend, "")

    @property
    def key(self) -> str:
        """The hash by which the choice is found."""
        return key_of(self.operator, self.platform, self.device, self.shapes, self.versions, self.content, self.params)

    @classmethod
    def from_json(cls, values: PyTree) -> TunedChoice:
        """Return the choice from values that `dataclasses.asdict` and JSON made of one.

        Args:
            values: A dictionary with a value for each attribute.

        Returns:
            The choice.

        Raises:
            ValueError: If an attribute is missing, or has another type.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ValueError("an entry has other fields")
        variants = values["variants"]
        if not isinstance(variants, list) or not all(isinstance(p, list) and len(p) == 2 for p in variants):
            raise ValueError("variants are not pairs")
        texts = [values[name] for name in names - {"variants", "seconds"}] + [
            text for pair in variants for text in pair
        ]
        if not all(isinstance(text, str) for text in texts) or type(values["seconds"]) not in (int, float):
            raise ValueError("a value has another type")
        return cls(**{**values, "variants": tuple((backend, variant) for backend, variant in variants)})


def key_of(*parts: str) -> str:
    """Return 32 hexadecimal digits for what identifies a choice."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
