# SPDX-License-Identifier: Apache-2.0
"""The same bits from every engine: random rules of synapses in Numba and as C++ text, beside the interpreter."""

import ctypes
import subprocess

import numba
import numpy as np
import pytest
from many_synapse_rules import COUNT, DTYPES, RESULTS, call, differing, expected, forms, values

from brainevent.backends.numba.floats import flush_floats, restore_floats
from brainevent.scalar.cuda_text import FLUSHING, SHIM, cuda_text
from brainevent.scalar.on_numba import compiled_forms

POINTER = {"float32": "float", "int32": "int", "uint32": "unsigned", "bool": "bool"}
FEW = tuple(f"rule_{number}" for number in range(0, COUNT, 14))


def check(found, names, given):
    wrong = {}
    for place, name in enumerate(names):
        for result, theirs in enumerate(expected(name, given)):
            bad = differing(found[place, result], theirs)
            if bad.size:
                where = {key: array[bad[0]] for key, array in given.items()}
                wrong[name, RESULTS[result]] = bad.size, found[place, result][bad[0]], theirs[bad[0]], where
    assert wrong == {}


def test_rules_differ_and_change_weights():
    given = values(300)
    weights = np.array([expected(name, given)[0] for name in forms()])
    changed = ~np.isclose(weights, given["w"], equal_nan=True)
    assert (changed.mean(1) > 0.1).mean() > 0.8
    assert len({text.tobytes() for text in weights}) > 0.9 * COUNT


def statement(place, name):
    """Return a statement in C++ that runs a rule for element k, and stores its three results."""
    arguments = call(name).removesuffix(")") + ", r[0], r[1], r[2])"
    return f"{{ float r[3]; {arguments}; for (int q = 0; q < 3; ++q) out[({place}L * 3 + q) * n + k] = r[q]; }}\n"


def test_cpp_text_gives_the_bits_of_the_interpreter(tmp_path):
    names, given = tuple(forms()), values(2000)
    inputs = ", ".join(f"const {POINTER[dtype]}* {name}" for name, dtype in DTYPES.items())
    calls = "".join(statement(place, name) for place, name in enumerate(names))
    run = (
        f'extern "C" void run({inputs}, float* out, long n) {{ {FLUSHING} for (long k = 0; k < n; k++) {{\n{calls}}} }}'
    )
    source = tmp_path / "rules.cpp"
    source.write_text(SHIM + cuda_text(forms().values()) + run)
    library = source.with_suffix(".so")
    flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    out = np.empty((len(names), 3, 2000), np.float32)
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (*given.values(), out)]
    ctypes.CDLL(str(library)).run(*arrays, ctypes.c_long(2000))
    check(out, names, given)


def by_numba(names, given):
    """Run rules in one loop over elements."""
    scope = {f"be_{name}": f for name, f in compiled_forms([forms()[name] for name in names]).items()}
    scope |= {"flush_floats": flush_floats, "restore_floats": restore_floats}
    lines = [f"out[{p}, 0, k], out[{p}, 1, k], out[{p}, 2, k] = {call(name)}" for p, name in enumerate(names)]
    loop = ["    before = flush_floats()", "    for k in range(w.size):", *(f"        {line}" for line in lines)]
    exec("\n".join([f"def run({', '.join(DTYPES)}, out):", *loop, "    restore_floats(before)"]), scope)
    out = np.empty((len(names), 3, given["w"].size), np.float32)
    numba.njit(error_model="numpy", nogil=True)(scope["run"])(*given.values(), out)
    return out


def test_numba_gives_the_bits_of_the_interpreter():
    given = values(2000, 1)
    check(by_numba(FEW, given), FEW, given)


@pytest.mark.thorough  # Numba compiles all of them
@pytest.mark.parametrize("part", range(5))
def test_numba_gives_the_bits_of_the_interpreter_for_all_rules(part):
    names, given = tuple(forms())[part::5], values(2000, 2)
    check(by_numba(names, given), names, given)
