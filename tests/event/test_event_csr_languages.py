# SPDX-License-Identifier: Apache-2.0
"""`binary_csrmv` in every language that runs on a CPU, by itself or emulated; NumPy is the oracle."""

import functools
import importlib.util
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from product_promises import both_ways, one_or_many, same
from programs import ROOT, program_environment
from sparse_products import close, numbers, operand, taken
from test_event_csr import compressed

import brainevent
from brainevent import binary_csrmv, binary_csrmv_p

pytestmark = pytest.mark.covering

NATIVE = ("numba", "cpp", "reference")
SIMULATED = brainevent.config.is_emulating()  # Numba-CUDA: its simulator is chosen before it is imported
WARP = ("warp",) if importlib.util.find_spec("warp") else ()
LANGUAGES = ("numba_cuda",) if SIMULATED else (*NATIVE, *WARP, "pallas", "pallas_tpu")
every_language = pytest.mark.parametrize("language", LANGUAGES)
SIZES = ((9, 12, 4), (1, 1, 300), (12, 9, 1), (0, 4, 2), (4, 0, 2), (4, 4, 0))


@pytest.fixture(autouse=True)
def emulating():
    before = brainevent.config.is_emulating()
    brainevent.config.emulate()
    yield
    brainevent.config.emulate(before)


def test_all_languages_are_there():
    emulated = {"numba_cuda", "warp", "pallas", "pallas_tpu"}
    assert set(binary_csrmv_p.available_backends("cpu")) == {"numba", "cpp"} | emulated
    found = {"cuda_raw", "numba_cuda", "warp", "triton", "pallas"}
    assert set(binary_csrmv_p.available_backends("gpu")) == found
    assert binary_csrmv_p.available_backends("tpu") == ["pallas"]
    assert binary_csrmv_p.defaults == {"cpu": "numba", "gpu": "cuda_raw", "tpu": "pallas"}


@pytest.mark.covering(strength=1, most=4)
@every_language
@both_ways
@one_or_many
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products(language, transpose, homogeneous, size):
    others = [("bfloat16", "int32"), ("float64", "int64")] if size == SIZES[0] else []
    for dtype, index in [("float32", "int32"), *others]:
        with jax.enable_x64(dtype == "float64"):
            sparse = compressed(0, *size, homogeneous=homogeneous, dtype=dtype, index=index)
            x = operand(1, taken(sparse, transpose=transpose), None, "float32", 0.5)
            options = {"shape": sparse.shape, "transpose": transpose, "backend": language}
            found = binary_csrmv(sparse.weights, *sparse.indices, x, **options)
            close(found, sparse.product(x, transpose=transpose, event=True), dtype)


@every_language
@both_ways
def test_one_weight_that_is_no_number_is_in_no_sum_without_events(language, transpose):
    sparse = compressed(2, 9, 12, 4, homogeneous=True)
    x = operand(3, taken(sparse, transpose=transpose), None, "bool", 0.2)
    options = {"shape": sparse.shape, "transpose": transpose, "backend": language}
    found = binary_csrmv(jnp.array([jnp.nan]), *sparse.indices, x, **options)
    np.testing.assert_array_equal(jnp.isnan(found), binary_csrmv(jnp.ones(1), *sparse.indices, x, **options) > 0)
    assert (found == 0).any()
    assert jnp.isnan(found).any()


@pytest.mark.covering(strength=1)
@every_language
def test_more_elements_of_a_result_than_a_block_has(language):
    sparse = compressed(8, 2, 3000, 1100, homogeneous=False)
    x = operand(9, 3000, None, "bool", 0.9)
    found = binary_csrmv(sparse.weights, *sparse.indices, x, shape=sparse.shape, backend=language)
    close(found, sparse.product(x, transpose=False, event=True))


@pytest.mark.covering(strength=1)
@every_language
@both_ways
def test_what_is_no_number_stays_where_it_belongs(language, transpose):
    sparse = compressed(2, 9, 12, 4, homogeneous=False)
    x = operand(3, taken(sparse, transpose=transpose), None, "bool", 0.5)
    weights = sparse.weights.at[::7].set(jnp.nan)
    options = {"shape": sparse.shape, "transpose": transpose}
    call = functools.partial(binary_csrmv, weights, *sparse.indices, x, **options)
    same(call(backend=language), call(backend="reference"), 1e-5)
    assert jnp.isnan(call()).any()
    assert not jnp.isnan(call()).all()


@pytest.mark.parametrize("language", ["numba", "cpp"])
def test_truth_values_may_be_other_bytes_than_one(language):
    raw = np.tile(np.array([2, 0, 1, 128], np.uint8), 300).view(bool)
    identity = brainevent.CSR.fromdense(np.eye(raw.size, dtype=np.float32), backend=language)
    for found in (jnp.asarray(raw) @ identity, identity @ jnp.asarray(raw)):
        np.testing.assert_array_equal(found, np.tile([1.0, 0, 1, 1], 300))


@pytest.mark.thorough
@every_language
@both_ways
@one_or_many
def test_promises(language, transpose, homogeneous):
    sparse = compressed(4, 8, 12, 4, homogeneous=homogeneous)
    x = numbers(5, taken(sparse, transpose=transpose))
    promises = ["values", "jit", "outputs written", "inputs unchanged", "vmap of all operands", "vjp", "shard_map"]
    options = {"shape": sparse.shape, "transpose": transpose, "promises": promises, "backends": [language]}
    brainevent.check(binary_csrmv_p, sparse.weights, *sparse.indices, x, **options).raise_if_failed()


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@both_ways
@one_or_many
def test_programs_of_pallas_are_made_for_devices_that_are_elsewhere(platform, transpose, homogeneous):
    if platform == "cuda" and jax.__version_info__ >= (0, 11):
        pytest.skip("this JAX makes programs of Pallas for a GPU where there is one")
    sparse = compressed(6, 8, 12, 4, homogeneous=homogeneous)
    x = operand(7, taken(sparse, transpose=transpose), None)
    options = {"shape": sparse.shape, "transpose": transpose, "backend": "pallas"}
    brainevent.config.emulate(False)
    traced = jax.jit(lambda *operands: binary_csrmv(*operands, **options)).trace(sparse.weights, *sparse.indices, x)
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    target = {"cuda": "__gpu$xla.gpu.triton", "tpu": "tpu_custom_call"}[platform]
    assert text.count(f"custom_call @{target}") == 1


@pytest.mark.thorough
@pytest.mark.skipif(SIMULATED, reason="this is that process")
def test_the_simulator_of_numba_cuda_in_a_process_of_its_own():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "numba_cuda"]
    environment = program_environment(BRAINEVENT_EMULATE="1")
    finished = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "33 passed, 1 skipped" in finished.stdout
