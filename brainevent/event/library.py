# SPDX-License-Identifier: Apache-2.0
"""All operators of the library, by their public names; importing this file registers them."""

from __future__ import annotations

from ..operator.custom_kernel import XLACustomKernel
from .delays import calls as delays
from .functions import coo, csr, dense, drawn, fixed
from .plasticity import calls as plasticity
from .synapses import functions as synapses
from .table import TABLE

OPERATORS: dict[str, XLACustomKernel] = {operator.name: operator for operator in TABLE.values()}

coomv_p, coomm_p = TABLE[coo.MV], TABLE[coo.MM]
binary_coomv_p, binary_coomm_p = TABLE[coo.EVENT_MV], TABLE[coo.EVENT_MM]
csrmv_p, csrmm_p = TABLE[csr.MV], TABLE[csr.MM]
csrmv_indexed_p, csrmm_indexed_p = TABLE[csr.MV_INDEXED], TABLE[csr.MM_INDEXED]
binary_csrmv_p, binary_csrmm_p = TABLE[csr.EVENT_MV], TABLE[csr.EVENT_MM]
binary_csrmv_indexed_p, binary_csrmm_indexed_p = TABLE[csr.EVENT_MV_INDEXED], TABLE[csr.EVENT_MM_INDEXED]
csr_delay_deliver_p, csr_delay_deliver_layout_p = TABLE[delays.ROWS], TABLE[delays.IN_ORDER]
take_arrivals_p = TABLE[delays.TAKEN]
csr_slice_rows_p = TABLE[csr.COPY]
csrmv_dt2t_p, csrmm_dt2t_p = TABLE[synapses.OF_VECTORS], TABLE[synapses.OF_BATCHES]
binary_densemv_p, binary_densemm_p = TABLE[dense.EVENT_MV], TABLE[dense.EVENT_MM]
fcnmv_p, fcnmm_p = TABLE[fixed.MV], TABLE[fixed.MM]
binary_fcnmv_p, binary_fcnmm_p = TABLE[fixed.EVENT_MV], TABLE[fixed.EVENT_MM]
update_csr_on_binary_pre_p, update_csr_on_binary_post_p = TABLE[plasticity.ROWS], TABLE[plasticity.INDEXED]
fcn_plasticity_row_p = TABLE[plasticity.SLICES]
update_dense_on_binary_pre_p = TABLE[plasticity.ROWS_OF_DENSE]
update_dense_on_binary_post_p = TABLE[plasticity.COLUMNS_OF_DENSE]
jits_p, jitn_p, jitu_p = drawn.WHOLE_MATRIX
jitsmv_p, jitnmv_p, jitumv_p = drawn.MV
jitsmm_p, jitnmm_p, jitumm_p = drawn.MM
binary_jitsmv_p, binary_jitnmv_p, binary_jitumv_p = drawn.EVENT_MV
binary_jitsmm_p, binary_jitnmm_p, binary_jitumm_p = drawn.EVENT_MM
