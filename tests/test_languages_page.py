# SPDX-License-Identifier: Apache-2.0
"""The page that compares the languages shows the figures of a committed result, and no others."""

import json

import pytest

from benchmarks.options import ROOT
from benchmarks.page import PAGE, figures, result_of, with_figures


def row(benchmark, name, median, ratio=None, note=""):
    values = {"value": {"median": median}, "ratio": ratio and {"median": ratio}}
    return {"benchmark": benchmark, "name": name, "note": note, **values}


def a_result(*rows, peer=None):
    packages = {"jax": "0.11.2", "numba-cuda": "0.30.4", "warp-lang": None}
    machine = {"gpu": "NVIDIA H200, driver 1", "nvcc": "13.0.88 (more)", "revision": "abc", "packages": packages}
    return {"date": "2026-01-02", "machine": machine, "peer": peer, "rows": rows}


def test_the_page_shows_the_figures_of_its_result():
    page = PAGE.read_text()
    name = result_of(page)
    result = json.loads((ROOT / name).read_text())
    assert with_figures(page, name, result) == page
    assert figures(result) in page


def test_figures_are_medians_and_ratios_of_the_result():
    lines = figures(
        a_result(
            row("gpu_overhead", "numba_cuda_kernel; a jitted chain of 50", 1.644, 1.004),
            row("gpu_start", "numba_cuda_kernel; cold", 1.5, note="empty caches; and 0.54 s of imports"),
            row("gpu_start", "numba_cuda_kernel; warm", 12.34),
            row("gpu_overhead", "P 1: numba_cuda_kernel; a jitted loop of 10000", 312.4, 120.5),
            row("gpu_csr", "25 000 connections: warp_kernel; one jitted call from Python", 70.06, 1.1),
            peer="P 1",
        )
    ).splitlines()
    assert lines[0] == "NVIDIA H200, driver 1; JAX 0.11.2, Numba-CUDA 0.30.4, nvcc 13.0.88; 2026-01-02, revision abc."
    assert "| `numba_cuda_kernel` | 1.64 us (1.00 x) | | 0.54 s | 1.50 s | 12.3 s |" in lines
    assert "| P 1: `numba_cuda_kernel` | | 312 us (120.50 x) | | | |" in lines
    assert "| `warp_kernel` | 70.1 us (1.10 x) | |" in lines
    assert len([line for line in lines if line.startswith(("| `", "| P"))]) == 3


@pytest.mark.parametrize("before", ["", "old figures\n\n| a | table |\n"])
def test_figures_take_the_place_of_older_ones(before):
    page = f"text\n<!-- figures of old.json -->\n{before}<!-- end of figures -->\nmore\n"
    result = a_result(row("gpu_lif", "10 000 neurons: cuda_kernel; a jitted chain of 20", 2.0, 1.0))
    changed = with_figures(page, "new.json", result)
    assert changed == f"text\n<!-- figures of new.json -->\n\n{figures(result)}\n\n<!-- end of figures -->\nmore\n"
    assert result_of(changed) == "new.json"
    assert with_figures(changed, "new.json", result) == changed
