# SPDX-License-Identifier: Apache-2.0
"""Kernels in cuTile, which reads them from their file."""

import cuda.tile as ct


@ct.kernel
def add(a, b, out, tile: ct.Constant[int]):  # type: ignore[no-untyped-def]
    i = ct.bid(0)
    ct.store(
        out,
        index=(i,),
        tile=ct.load(a, index=(i,), shape=(tile,)) + ct.load(b, index=(i,), shape=(tile,)),
    )
