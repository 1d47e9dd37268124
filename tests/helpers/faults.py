# SPDX-License-Identifier: Apache-2.0
"""Operators that break one promise each, for the tests of `brainevent.check`."""

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad
from zoo import like, numba_generator

import brainevent
from brainevent import XLACustomKernel

X = np.array([0.5, -1.5, 2.0, 1.0, -0.25, 3.0, 0.75, -2.0], np.float32)
MATRIX = (np.arange(32, dtype=np.float32).reshape(4, 8) - 11) / 7
_numbers = itertools.count()


@dataclass(frozen=True)
class Fault:
    """An operator, how to check it, the promise that it breaks, and what the report says."""

    operator: XLACustomKernel
    promise: str
    words: str
    operands: tuple[Any, ...] = (X,)
    options: dict[str, Any] = field(default_factory=dict)


FAULTS: list[Callable[[], Fault]] = []


def fault(make: Callable[[], Fault]) -> Callable[[], Fault]:
    FAULTS.append(make)
    return make


def operator(generator, reference=None):
    op = XLACustomKernel(f"faulty_{next(_numbers)}")
    op.def_kernel("planted", "cpu", generator)
    if reference is not None:
        op.def_reference(reference)
    return op


def plain(function):
    """Return the kernel generator of a jax.numpy function."""
    return lambda *, outs, **_: function


def twice(x):
    return 2 * x


@numba.njit
def numba_twice(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


def good_twice():
    return operator(numba_generator(numba_twice))


# ---- plain calls ---------------------------------------------------------------------------------------------------


@fault
def wrong_value():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i] + (i == 3)

    return Fault(
        operator(numba_generator(kernel), twice), "values", "output 0: element [3] is 3.0, expected 2.0 (1 of 8"
    )


@fault
def wrong_integer():
    op = operator(plain(lambda x: [x.sum() + 1]), lambda x: x.sum())
    return Fault(op, "values", "output 0: is 7, expected 6", (np.arange(4, dtype=np.int32),))


@fault
def two_kernels_disagree():
    op = operator(plain(lambda x: [2.0 * x]))
    op.def_kernel("other", "cpu", plain(lambda x: [2.1 * x]))
    return Fault(op, "values", "element [0] is", options={"outs": like(X)})


@fault
def wrong_dtype():
    op = operator(plain(lambda x: [x.astype(jnp.float16)]))
    return Fault(op, "shapes and dtypes", "output 0 is float16[8], but outs says float32[8]", options={"outs": like(X)})


@fault
def wrong_shape():
    op = operator(plain(lambda x: [x[1:]]), twice)
    return Fault(op, "shapes and dtypes", "output 0 is float32[7], but outs says float32[8]")


@fault
def outs_unlike_the_reference():
    op = operator(plain(lambda x: [x[1:]]), twice)
    words = "compared with the reference, outs is wrong: output 0 is float32[7], expected float32[8]"
    return Fault(op, "shapes and dtypes", words, options={"outs": like(X[1:])})


@fault
def reference_fails():
    op = operator(plain(lambda x: [x]), lambda x: x @ jnp.ones(3))
    return Fault(op, "shapes and dtypes", "its reference raised TypeError for operands")


@fault
def generator_raises():
    def generator(*, outs):
        raise OSError("no such table")

    return Fault(operator(generator, twice), "shapes and dtypes", "OSError: no such table")


@fault
def kernel_raises():
    @numba.njit
    def kernel(x, out):
        raise ValueError("bad day")

    words = "JaxRuntimeError: INTERNAL: operator"
    return Fault(operator(numba_generator(kernel), twice), "shapes and dtypes", words)


@fault
def another_kernel_each_time():
    builds = itertools.count()

    def generator(*, outs):
        factor = 2.0 + (next(builds) >= 2)
        return lambda x: [factor * x]

    return Fault(operator(generator, twice), "jit", "output 0: element [0] is 1.5, expected 1.0")


@fault
def random_kernel():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] + np.random.random()

    return Fault(operator(numba_generator(kernel)), "repeated calls", "call 2 differs", options={"outs": like(X)})


_scratch = (ctypes.c_float * 8)()


@fault
def shared_scratch_memory():
    address = ctypes.addressof(_scratch)

    @numba.extending.intrinsic
    def scratch_memory(typing_context):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(
                context.get_constant(numba.intp, address), context.get_value_type(signature.return_type)
            )

        return numba.types.CPointer(numba.float32)(), codegen

    @numba.njit
    def kernel(x, out):
        scratch = numba.carray(scratch_memory(), 8)
        for i in range(x.size):
            scratch[i] = x[i]
        for turn in range(1000):  # time enough for another thread
            for i in range(x.size):
                scratch[i] += turn % 2
                scratch[i] -= turn % 2
        for i in range(x.size):
            out[i] = 2 * scratch[i]

    return Fault(operator(numba_generator(kernel), twice), "calls at once", "in one of several threads: output 0")


@fault
def calls_python():
    def generator(*, outs):
        return lambda x: [jax.pure_callback(lambda x: 2 * np.asarray(x), outs[0], x, vmap_method="expand_dims")]

    return Fault(operator(generator, twice), "export", "callback")


# ---- memory --------------------------------------------------------------------------------------------------------


@fault
def writes_to_its_input():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]
            x[i] = min(x[i], np.float32(1.0))

    words = "the call wrote to the caller's array: operand 0: element [2] is 1.0, expected 2.0 (2 of 8"
    return Fault(operator(numba_generator(kernel), twice), "inputs unchanged", words)


@fault
def forgets_an_element():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size - 1):
            out[i] = 2 * x[i]

    words = "output 0: element [7] keeps what its memory held before the call (1 of 8 elements)"
    return Fault(operator(numba_generator(kernel)), "outputs written", words, options={"outs": like(X)})


@fault
def forgets_a_whole_output():
    @numba.njit
    def kernel(x, out, even):
        for i in range(x.size):
            out[i] = 2 * x[i]

    op = operator(numba_generator(kernel))
    outs = [*like(X), jax.ShapeDtypeStruct((2, 2), bool)]
    return Fault(op, "outputs written", "output 1: element [0, 0] keeps what", options={"outs": outs})


@fault
def adds_to_what_is_there():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i % 4] += x[i]

    words = "output 0: element [0] keeps what its memory held before the call (4 of 4"
    outs = like(X[:4])
    return Fault(operator(numba_generator(kernel)), "outputs written", words, options={"outs": outs})


@fault
def forgets_an_element_of_a_temporary():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size - 1):
            out[i] = 2 * x[i]

    def generator(*, outs):
        padded = brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct((100,), np.float32))
        return lambda x: [padded(x)[: x.size]]

    words = "output 0: element [7] keeps what its memory held before"
    return Fault(operator(generator), "outputs written", words, options={"outs": like(X)})


# ---- vmap ----------------------------------------------------------------------------------------------------------


@numba.njit
def running_sum(x, out):
    total = x.dtype.type(0)
    for i, value in enumerate(x.flat):
        total += value
        out.flat[i] = total


@fault
def ignores_the_batch_axis():
    def generator(*, outs):
        return brainevent.numba_kernel(running_sum, outs=outs, vmap_method="broadcast_all")

    return Fault(operator(generator, jnp.cumsum), "vmap of one operand", "operand 0 mapped along axis 0: output 0")


@fault
def vectorised_without_broadcasting():
    @numba.njit
    def kernel(x, y, out):
        for i in range(x.size):
            out.flat[i] = x.flat[i] * y.flat[i]

    def generator(*, outs):
        return brainevent.numba_kernel(kernel, outs=outs, vmap_method="expand_dims")

    return Fault(operator(generator, jnp.multiply), "vmap of one operand", "operand 0 mapped along axis 0", (X, X + 1))


@fault
def batching_rule_names_a_wrong_axis():
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_batching_rule(lambda args, axes, **params: (op.primitive.bind(*args, **params), [1]))
    square = np.stack([X[:3], X[3:6], X[4:7]])
    words = "output 0"
    return Fault(op, "vmap of one operand", words, (square,))


@fault
def batching_rule_ignores_the_axis():
    op = good_twice()

    def rule(args, axes, **params):
        return [jnp.stack([op.primitive.bind(row, **params)[0] for row in args[0]])], [0]

    op.def_batching_rule(rule)
    return Fault(op, "vmap of one operand", "operand 0 mapped along axis 1", options={"outs": like(X)})


@fault
def batching_rule_knows_one_operand():
    op = operator(plain(lambda x, y: [x * y]), jnp.multiply)

    def rule(args, axes, **params):
        x, y = args[0] if axes[0] in (0, None) else args[0].T, args[1]
        rows = [op.primitive.bind(row, y, **params)[0] for row in x]
        return [jnp.stack(rows)], [0]

    op.def_batching_rule(rule)
    return Fault(op, "vmap of all operands", "Error", (X, X + 1))


@fault
def batching_rule_cannot_be_nested():
    op = good_twice()

    def rule(args, axes, **params):
        host = np.moveaxis(np.asarray(args[0]), axes[0], 0) if not isinstance(args[0], jax.core.Tracer) else None
        return [jnp.asarray(2 * host)], [0]

    def once(args, axes, **params):
        x = jnp.moveaxis(args[0], axes[0], 0)
        outs = tuple(x.update(shape=(len(args[0]), *x.shape)) for x in params.pop("outs"))
        return inner.primitive.bind(x, outs=outs, **params), [0]

    inner = operator(plain(lambda x: [2 * x]))
    inner.def_batching_rule(rule)
    op.def_batching_rule(once)
    return Fault(op, "nested vmap", "Error", options={"outs": like(X)})


@fault
def batching_rule_fails_for_no_element():
    op = good_twice()

    def rule(args, axes, **params):
        rows = jnp.moveaxis(args[0], axes[0], 0)
        return [jnp.stack([op.primitive.bind(row, **params)[0] for row in rows])], [0]

    op.def_batching_rule(rule)
    return Fault(op, "vmap of size 0 and 1", "Need at least one array to stack", options={"outs": like(X)})


# ---- derivatives ---------------------------------------------------------------------------------------------------


def product(reference=None):
    return operator(plain(lambda x, y: [x * y]), reference)


@fault
def wrong_jvp_rule():
    op = product(jnp.multiply)
    op.def_jvp_rule2(lambda t, x, y, **_: t * y, lambda t, x, y, **_: t * y)
    return Fault(op, "jvp", "operand 1: element [0] of the tangent of output 0 is", (X, X + 1))


@fault
def slightly_wrong_jvp_rule_and_no_reference():
    op = operator(plain(lambda x: [jnp.sin(x)]))
    op.def_jvp_rule2(lambda t, x, **_: 1.02 * t * jnp.cos(x))
    return Fault(op, "jvp", "operand 0: element [0] of the tangent of output 0 is", options={"outs": like(X)})


@fault
def jvp_rule_forgets_the_second_output():
    op = operator(plain(lambda x: [x + 1, x * x]))
    op.def_jvp_rule2(lambda t, x, **_: (t, None))
    return Fault(op, "jvp", "the tangent of output 1", options={"outs": like(X, X)})


def with_transpose(transpose):
    op = product()
    op.def_jvp_rule2(lambda t, x, y, **params: op(t, y, **params), lambda t, x, y, **params: op(x, t, **params))
    if transpose is not None:
        op.def_transpose_rule(transpose)
    return op


@fault
def wrong_transpose_rule():
    def transpose(cts, x, y, **_):
        return (cts[0] * y, None) if ad.is_undefined_primal(x) else (None, -cts[0] * x)

    words = "operand 1: the product of the cotangents with a direction is"
    return Fault(with_transpose(transpose), "vjp", words, (X, X + 1), {"outs": like(X)})


@fault
def wrong_transpose_rule_without_a_jvp_rule():
    op = good_twice()
    op.def_transpose_rule(lambda cts, x, **_: (3 * cts[0],))
    return Fault(
        op, "transpose", "operand 0: the product of the transpose with a direction is", options={"outs": like(X)}
    )


@fault
def missing_transpose_rule():
    words = "Transpose rule (for reverse-mode differentiation) for"
    return Fault(with_transpose(None), "vjp", words, (X, X + 1), {"outs": like(X)})


@fault
def jvp_rule_that_cannot_be_batched():
    op = operator(plain(lambda x: [jnp.sin(x)]), jnp.sin)
    # A custom_jvp function without a batching rule of its own: a primitive that vmap does not know.
    stubborn = Primitive(f"stubborn_{next(_numbers)}")
    stubborn.def_abstract_eval(lambda x: x)
    jax.interpreters.mlir.register_lowering(stubborn, lambda ctx, x: [x])
    ad.deflinear2(stubborn, lambda ct, x: [stubborn.bind(ct)])
    op.def_jvp_rule2(lambda t, x, **_: stubborn.bind(t) * jnp.cos(x))
    return Fault(op, "vmap of grad", "operand 0 mapped: NotImplementedError: Batching rule for 'stubborn")


@fault
def batching_rule_without_derivatives():
    op = operator(plain(lambda x: [2 * x]), twice)
    inner = good_twice()

    def rule(args, axes, **params):
        flat = jnp.moveaxis(args[0], axes[0], 0)
        return [inner(flat.reshape(-1), outs=jax.ShapeDtypeStruct((flat.size,), flat.dtype)).reshape(flat.shape)], [0]

    op.def_batching_rule(rule)
    return Fault(op, "grad of vmap", "operand 0 mapped: NoRuleError: Differentiation rule for 'faulty")


# ---- several devices -----------------------------------------------------------------------------------------------


@fault
def elementwise_rule_for_a_running_sum():
    op = operator(numba_generator(running_sum), jnp.cumsum)
    op.def_sharding_rule("k -> k")
    return Fault(op, "sharded jit", "operand 0 split along axis 0: output 0: element [2]")


@fault
def sums_what_has_a_maximum():
    op = operator(plain(lambda x: [x.max(axis=1)]), lambda x: x.max(axis=1))
    op.def_sharding_rule("m k -> m", reduction_factors=("k",))
    return Fault(op, "sharded jit", "operand 0 split along axis 1: output 0", (MATRIX,))


@fault
def rule_of_another_rank():
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_sharding_rule("i j -> i j")
    return Fault(op, "shapes and dtypes", "sharding rule 'i j -> i j'")


@fault
def kernel_sees_the_whole_shape():
    def generator(*, outs, scale):
        return lambda x: [2 * x * scale / x.shape[0]]

    op = operator(generator, lambda x, scale: 2 * x * scale / x.shape[0])
    op.def_sharding_rule("i -> i")
    return Fault(op, "shard_map", "factor 'i' split in 4: output 0", options={"scale": 8.0})


@fault
def batching_rule_takes_no_backend():
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_kernel("default", "cpu", plain(lambda x: [2 * x]), asdefault=True)
    op.def_batching_rule(lambda args, axes, outs: ([2 * jnp.moveaxis(args[0], axes[0], 0)], [0]))
    return Fault(op, "vmap of one operand", "got an unexpected keyword argument 'backend'")
