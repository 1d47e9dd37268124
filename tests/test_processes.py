# SPDX-License-Identifier: Apache-2.0
"""Nothing of a process stands in a program: export and the compilation cache work in another one."""

import re
import textwrap

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from forked import run_forked
from portable_ops import affine_op, model
from programs import run_program

import brainevent

jax_export = pytest.importorskip("jax.export")
pytest.importorskip("flatbuffers")

X = jnp.arange(6.0)
W = jnp.arange(6.0) + 1


def exported(function, *args):
    return jax.export.export(jax.jit(function), disabled_checks=brainevent.export_checks())(*args)


def test_export_round_trip_in_this_process():
    restored = jax.export.deserialize(exported(model, X, W).serialize())
    np.testing.assert_allclose(restored.call(X, W), 2 * (X * W + 1))


def test_export_without_the_checks_named_is_refused_by_jax():
    with pytest.raises(ValueError, match="brainevent_portable"):
        jax.export.export(jax.jit(model))(X, W)


LOAD = """
    import sys, jax, jax.numpy as jnp, numpy as np
    {imports}
    restored = jax.export.deserialize(open(sys.argv[1], "rb").read())
    X, W = jnp.arange(6.0), jnp.arange(6.0) + 1
    np.testing.assert_allclose(jax.jit(restored.call)(X, W), 2 * (X * W + 1))
    try:
        jax.block_until_ready(restored.call(X - 1, W))
    except jax.errors.JaxRuntimeError as error:
        print(error)
"""


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    ("run", "imports"),
    [(run_forked, "import portable_ops"), (run_program, "import brainevent")],
    ids=["forked", "alone"],
)
def test_an_exported_program_runs_in_another_process(tmp_path, run, imports):
    file = tmp_path / "model.bin"
    file.write_bytes(exported(model, X, W).serialize())
    printed = run(LOAD.format(imports=imports), file)
    assert "operator 'portable_affine': Numba kernel 'affine' raised ValueError: ('negative', -1.0)" in printed


def test_an_exported_program_batches_differentiates_and_takes_any_size(tmp_path):
    """Handlers read shapes when they run."""
    (n,) = jax.export.symbolic_shape("n")
    one = jax.ShapeDtypeStruct((n,), jnp.float32)
    restored = jax.export.deserialize(exported(model, one, one).serialize())
    for size in (1, 5):
        np.testing.assert_allclose(restored.call(X[:size], W[:size]), 2 * (X * W + 1)[:size])
    batched = exported(jax.vmap(model, (None, 0)), X, jnp.stack([W, 2 * W]))
    np.testing.assert_allclose(batched.call(X, jnp.stack([W, 2 * W]))[1], 2 * (X * 2 * W + 1))
    gradient = exported(jax.grad(lambda x, w: affine_op(x, w).sum()), X, W)
    np.testing.assert_allclose(gradient.call(X, W), W)


def test_an_exported_sharded_program_holds_no_address():
    mesh = jax.make_mesh((len(jax.devices()),), ("d",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.device_put(jnp.arange(8.0), sharding)
    program = exported(lambda x: affine_op(x, x), x)
    assert "CustomSPMDPartitioning" not in program.mlir_module()
    np.testing.assert_allclose(program.call(x), x * x + 1)


def test_a_damaged_payload_is_an_error_not_a_crash():
    text = exported(model, X, W).mlir_module()
    assert re.search(r"payload = dense<", text)
    from brainevent.ffi import portable

    with pytest.raises(Exception, match="incorrect header check"):
        portable._load(b"not a payload")
    with pytest.raises(RuntimeError, match="exported with kernels in layout 99"):
        portable._load(_packed(layout=99))
    with pytest.raises(RuntimeError, match=r"compiled for numba 0\.1.*export it again"):
        portable._load(_packed(numba="0.1"))


def _packed(**changes):
    import json
    import platform
    import zlib

    header = {
        "layout": 2,
        "boxing": {},
        "language": "numba",
        "name": "f",
        "parallel": False,
        "numba": numba.__version__,
    }
    header |= {"machine": platform.machine(), "system": platform.system(), **changes}
    return zlib.compress(json.dumps(header).encode() + b"\n")


CACHED = """
    import collections, sys, jax, jax.numpy as jnp, numpy as np
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    events = collections.Counter()
    jax.monitoring.register_event_listener(lambda event, **_: events.update([event.rpartition("/")[2]]))
    from portable_ops import model, affine_op
    X, W = jnp.arange(8.0), jnp.arange(8.0) + 1
    expected = 2 * (X * W + 1)
    mesh = jax.make_mesh((len(jax.devices()),), ("d",))
    put = lambda x: jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
    x, w = put(X), put(W)
    events.clear()
    np.testing.assert_allclose(jax.jit(model)(X, W), expected)
    plain = events["cache_hits"], events["cache_misses"]
    events.clear()
    np.asarray(jax.jit(affine_op)(x, w))
    print(*plain, events["cache_hits"], events["cache_misses"])
    np.testing.assert_allclose(jax.jit(affine_op)(x, w), X * W + 1)
    if len(sys.argv) > 2:  # another kernel under the same name and types must not be met in the cache
        affine_op.def_kernel("other", "cpu", lambda *, outs: lambda x, w: [x * w + 2], asdefault=True)
        np.testing.assert_allclose(jax.jit(affine_op)(x, w), X * W + 2)
"""


def test_the_persistent_compilation_cache_hits_and_is_right_in_another_process(tmp_path):
    assert run_forked(CACHED, tmp_path).split() == ["0", "1", "0", "1"]
    assert run_forked(CACHED, tmp_path).split() == ["1", "0", "1", "0"]
    assert run_forked(CACHED, tmp_path, "changed").split() == ["1", "0", "1", "0"]


NAMES = """
    import jax, jax.numpy as jnp
    from portable_ops import model
    text = jax.jit(model).lower(jnp.ones(3), jnp.ones(3)).as_text()
    print(text)
"""


@pytest.mark.thorough
def test_a_lowered_program_is_the_same_text_in_every_process():
    first, second = run_program(NAMES, PYTHONHASHSEED="1"), run_forked(NAMES)  # the second hashes as this process does
    assert first == second
    assert "brainevent_numba_ffi_" in first


LOCAL_KERNELS = {
    "ctypes": (
        "import ctypes; c = ctypes.CDLL(None).cos; c.argtypes, c.restype = [ctypes.c_double], ctypes.c_double",
        "out[0] = c(x[0])",
        "holds a C function",
    ),
    "large": ("c = np.ones(1_000_000)", "out[0] = c[int(x[0])]", "large global array"),
    "objmode": ("c = print", "\n    with numba.objmode(): c(x.sum())\n    out[0] = 1", "runs Python code"),
}
LOCAL = """
import jax, jax.numpy as jnp, numba, numpy as np, brainevent
{setup}
@numba.njit
def kernel(x, out):
    {body}
f = lambda x: brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct((1,), jnp.float32))(x)
jax.block_until_ready(jax.jit(f)(jnp.zeros(1)))
try:
    jax.export.export(jax.jit(f), disabled_checks=brainevent.export_checks())(jnp.zeros(1))
except brainevent.UnsupportedOperationError as error:
    print(error)
"""


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("kind", LOCAL_KERNELS)
def test_code_that_cannot_be_carried_is_refused_when_it_is_exported(kind):
    setup, body, why = LOCAL_KERNELS[kind]
    printed = run_forked(LOCAL.format(setup=setup, body=body))
    assert "the Numba kernel 'kernel' cannot be exported" in printed
    assert why in printed
    assert "exists only in this process" in printed


CACHED_ON_DISK = """
    import jax, jax.numpy as jnp, numpy as np, brainevent, disk_cached
    brainevent.config.set_numba_cache(False)
    f = lambda x: brainevent.numba_kernel(disk_cached.kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    x = jnp.arange(100.0)
    np.testing.assert_allclose(jax.jit(f)(x), 2 * x)
    program = jax.export.export(jax.jit(f), disabled_checks=brainevent.export_checks())(x)
    np.testing.assert_allclose(program.call(x), 2 * x)
    print(sum(disk_cached.double.stats.cache_hits.values()))
"""


@pytest.mark.thorough
def test_functions_that_numba_keeps_on_disk(tmp_path):
    (tmp_path / "disk_cached.py").write_text(
        "import numba\n\n@numba.njit(cache=True, parallel=True)\ndef double(x, out):\n"
        "    for i in numba.prange(x.size):\n        out[i] = 2 * x[i]\n\n"
        "@numba.njit\ndef kernel(x, out):\n    double(x, out)\n"
    )
    source = f"import sys, warnings, numba; sys.path.insert(0, {str(tmp_path)!r})\n"
    source += "warnings.simplefilter('error', numba.NumbaWarning)\n" + textwrap.dedent(CACHED_ON_DISK)
    hits = [run_forked(source).strip() for _ in range(2)]
    assert hits == ["0", "1"]
