# SPDX-License-Identifier: Apache-2.0
"""How colours look to readers: contrast as WCAG 2 defines it, and distance in CIELAB, also with simulated sight."""

import numpy as np

# What the cones of a dichromat make of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
SIGHTS = {
    "any": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE = _XYZ.sum(axis=1)


def linear(colour):
    """Return the linear RGB of '#rrggbb'."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Return how many times brighter the brighter colour is, from 1 to 21."""
    dark, bright = sorted(float(_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (bright + 0.05) / (dark + 0.05)


def distance(one, other, sight="any"):
    """Return how far apart two colours look: 2 is just to be seen, black is 100 from white."""
    return float(np.linalg.norm(_lab(SIGHTS[sight] @ linear(one)) - _lab(SIGHTS[sight] @ linear(other))))


def _lab(rgb):
    ratio = _XYZ @ np.clip(rgb, 0, 1) / _WHITE
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
