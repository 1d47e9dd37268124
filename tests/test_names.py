# SPDX-License-Identifier: Apache-2.0
"""Public names: those of `dir` are there, old ones warn, and names that are gone say what to use instead."""

import importlib
import subprocess
import sys
import warnings

import pytest

import brainevent
from brainevent import HybridConfig, get_hybrid_config, init_csr_config
from brainevent._names import LAZY, REMOVED, RENAMED


def test_every_name_of_dir_is_there():
    assert dir(brainevent) == sorted(brainevent.__all__)
    with warnings.catch_warnings(action="error"):
        for name in dir(brainevent):
            getattr(brainevent, name)
    assert set(LAZY) <= set(brainevent.__all__)


@pytest.mark.parametrize("old", RENAMED)
def test_old_names_warn(old):
    new = RENAMED[old]
    for _ in range(2):
        words = rf"brainevent.{old} is .* deprecated, use brainevent.{new}"
        with pytest.warns(DeprecationWarning, match=words) as caught:
            assert getattr(brainevent, old) is getattr(brainevent, new)
        assert caught[0].filename == __file__
    assert old not in dir(brainevent)


@pytest.mark.parametrize("name", REMOVED)
def test_names_that_are_gone_give_advice(name):
    assert not hasattr(brainevent, name)
    assert name not in dir(brainevent)
    with pytest.raises(AttributeError, match=rf"brainevent.{name} was removed in 0.1.0: .*(CSR|fcnmv|FixedNumPerPost)"):
        getattr(brainevent, name)


def test_unknown_names_are_plain_errors():
    with pytest.raises(AttributeError, match="module 'brainevent' has no attribute 'nothing'"):
        importlib.import_module("brainevent").nothing  # noqa: B018


def test_the_scheduler_configuration_is_accepted_and_ignored():
    assert HybridConfig() == HybridConfig(benchmark_records=(1,)) == get_hybrid_config()
    assert get_hybrid_config() is get_hybrid_config()
    with pytest.warns(UserWarning, match="init_csr_config does nothing: kernels here have no such constants"):
        assert init_csr_config(save=False, n_pre=100) is get_hybrid_config()
    with pytest.raises(TypeError, match="init_csr_config: unknown option 'n_pree'; known: batch_size"):
        init_csr_config(n_pree=1)
    for wrong, words in (
        ({"block_size": 48}, "block_size is 48; pass a multiple of 32, at most 1024"),
        ({"task_nnz": 0}, "task_nnz is 0; pass at least 1"),
        ({"tpr_threshold": -1}, "tpr_threshold is -1; pass at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            HybridConfig(**wrong)
    for wrong in ("64", 64.0, None):
        with pytest.raises(TypeError, match=f"HybridConfig: block_size is {wrong!r}; pass an integer"):
            HybridConfig(block_size=wrong)


def test_names_are_loaded_when_they_are_used():
    text = (
        "import sys, brainevent; print([m for m in sys.modules if m.startswith(('brainevent.event', 'scipy.sparse'))])"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
