# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: the tests of gradients by events, with its kernels."""

import pytest
from test_event_gradients import (  # noqa: F401 - pytest collects them here, too
    test_a_tangent_or_a_weight_that_meets_no_event_adds_nothing,
    test_a_weight_that_meets_no_event_has_no_gradient,
    test_batches_of_gradients,
    test_deliveries,
    test_numbers_of_drawn_matrices,
    test_one_weight_for_all_gets_what_its_events_give,
    test_rows_as_dense_ones,
    test_updates_of_plasticity,
    test_weights_by_a_permutation,
    test_what_is_drawn_as_a_dense_matrix,
)

pytestmark = pytest.mark.gpu
