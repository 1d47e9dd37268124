# SPDX-License-Identifier: Apache-2.0
"""The page that compares the languages shows the figures of a committed result, and no others."""

import json

import pytest

from benchmarks import gpu_examples
from benchmarks.options import ROOT
from benchmarks.page import PAGE, figures, results_of, with_figures
from benchmarks.probes import gpu_csr, gpu_lif


def row(benchmark, name, median, ratio=None, note=""):
    values = {"value": {"median": median}, "ratio": ratio and {"median": ratio}}
    return {"benchmark": benchmark, "name": name, "note": note, **values}


def a_result(*rows, peer=None):
    packages = {"jax": "0.11.2", "numba-cuda": "0.30.4", "warp-lang": None}
    machine = {"gpu": "NVIDIA H200, driver 1", "nvcc": "13.0.88 (more)", "revision": "abc", "packages": packages}
    return {"date": "2026-01-02", "machine": machine, "peer": peer, "rows": rows}


def test_the_page_shows_the_figures_of_its_results():
    page = PAGE.read_text()
    names = results_of(page)
    assert list(names) == ["launches", "gpu_csr", "gpu_lif"]
    for block, name in names.items():
        result = json.loads((ROOT / name).read_text())
        assert figures(block, result) in page
        assert figures(block, result)


def test_figures_are_medians_and_ratios_of_the_result():
    result = a_result(
        row("gpu_overhead", "numba_cuda_kernel; a jitted chain of 50", 1.644, 1.004),
        row("gpu_start", "numba_cuda_kernel; cold", 1.5, note="empty caches; and 0.54 s of imports"),
        row("gpu_start", "numba_cuda_kernel; warm", 12.34),
        row("gpu_overhead", "P 1: numba_cuda_kernel; a jitted loop of 10000", 312.4, 120.5),
        row("gpu_csr", "25 000 connections: binary_csrmv, backend warp; one jitted call from Python", 70.06, 1.1),
        row("gpu_lif", "10 million neurons: warp_kernel; a jitted chain of 20", 9.0, 1.0),
        peer="P 1",
    )
    machine = "NVIDIA H200, driver 1; JAX 0.11.2, Numba-CUDA 0.30.4, nvcc 13.0.88; 2026-01-02, revision abc."
    shown = {block: figures(block, result).splitlines() for block in ("launches", "gpu_csr", "gpu_lif")}
    assert all(lines[0] == machine for lines in shown.values())
    assert shown["launches"][4:] == [
        "| `numba_cuda_kernel` | 1.64 us (1.00 x) | | 0.54 s | 1.50 s | 12.3 s |",
        "| P 1: `numba_cuda_kernel` | | 312 us (120.50 x) | | | |",
    ]
    assert shown["gpu_csr"][2:] == [
        "| 25 000 connections | one call from Python | in a chain of 20 |",
        "| --- | ---: | ---: |",
        '| `binary_csrmv`, `backend="warp"` | 70.1 us (1.10 x) | |',
    ]
    assert shown["gpu_lif"][4:] == ["| `warp_kernel` | | 9.00 us (1.00 x) |"]


@pytest.mark.parametrize("before", ["", "old figures\n\n| a | table |\n"])
def test_figures_take_the_place_of_older_ones(before):
    other = "<!-- figures of launches in other.json -->\nthese stay\n<!-- end of figures -->\n"
    page = f"text\n<!-- figures of gpu_lif in old.json -->\n{before}<!-- end of figures -->\nmore\n{other}"
    result = a_result(row("gpu_lif", "10 000 neurons: cuda_kernel; a jitted chain of 20", 2.0, 1.0))
    changed = with_figures(page, "new.json", result)
    written = figures("gpu_lif", result)
    assert changed == (
        f"text\n<!-- figures of gpu_lif in new.json -->\n\n{written}\n\n<!-- end of figures -->\nmore\n{other}"
    )
    assert results_of(changed) == {"gpu_lif": "new.json", "launches": "other.json"}
    assert with_figures(changed, "new.json", result) == changed


def test_every_way_of_an_example_has_a_name():
    assert gpu_csr.WAYS.keys() == gpu_examples.CSR_NAMES.keys()
    assert gpu_lif.WAYS.keys() == gpu_examples.LIF_NAMES.keys()
