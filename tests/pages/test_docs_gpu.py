# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: every block of the pages about CUDA prints what the page shows."""

import pytest
from programs import ROOT, run_program

pytestmark = pytest.mark.gpu

PAGES = ["cuda.md", "numba-cuda.md", "warp.md", "raw-cuda.md", "kernels-from-anywhere.md", "triton-pallas.md"]
PAGES += ["cutile.md", "cute.md"]
PACKAGES = {"warp.md": ["warp"], "cutile.md": ["cuda.tile"], "cute.md": ["cutlass.cute", "tvm_ffi"]}
ENVIRONMENT = {"JAX_PLATFORMS": "cuda,cpu"}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_prints_what_the_page_shows(page):
    for package in PACKAGES.get(page, []):
        pytest.importorskip(package, reason=f"the page needs {package}")
    if page == "warp.md":
        from warp_kernels import need_compiler_for_cpus

        need_compiler_for_cpus()
    source = """
        import pathlib, sys
        from docs.blocks import blocks, failures
        page = pathlib.Path(sys.argv[1])
        print(len(list(blocks(page.read_text()))), *failures(page), sep="\\n")
    """
    printed = run_program(source, ROOT / "docs" / page, timeout=550, **ENVIRONMENT)
    number, *different = printed.splitlines()
    assert int(number) > 0
    assert not different, printed
