# SPDX-License-Identifier: Apache-2.0
"""Everything of JAX that is private or differs between its releases."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import jax
from jax._src import config as _config
from jax._src import core as _core
from jax._src import custom_partitioning as _custom_partitioning
from jax._src import debugging as _debugging
from jax._src import dispatch as _dispatch
from jax._src import mesh as _mesh
from jax._src import sharding_impls as _sharding_impls
from jax._src import source_info_util as _source_info
from jax._src import traceback_util as _traceback_util
from jax._src import tree_util as _tree_util
from jax._src.custom_partitioning_sharding_rule import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    str_to_sdy_sharding_rule,
)
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import mlir as _mlir
from jax._src.lib.mlir import ir as _ir  # type: ignore[attr-defined]
from jax.interpreters import ad, batching, mlir
from jaxlib._jax import custom_call_targets  # type: ignore[import-not-found]
from jaxlib.version import __version__ as jaxlib_version

__all__ = [
    "BATCHING",
    "ArrayMapping",
    "BatchTracer",
    "CompoundFactor",
    "Primitive",
    "SdyShardingRule",
    "ShapedArray",
    "Tracer",
    "UndefinedPrimal",
    "Zero",
    "abstract_result",
    "alone",
    "behind",
    "bind_equation",
    "call_site_last",
    "calls_python",
    "canonical",
    "closed_jaxpr",
    "code_of",
    "custom_call_targets",
    "described_devices",
    "directly",
    "first_of_batch",
    "for_export",
    "function_of",
    "hands_over_batches",
    "hide_frames_of",
    "infer_types",
    "interpreted_pallas",
    "is_differentiated",
    "is_traced",
    "is_tracing",
    "is_undefined_primal",
    "jaxlib_version",
    "jaxprs_of",
    "key_function",
    "lower_alone",
    "lowering_platforms",
    "match_explicit_axes",
    "match_manual_axes",
    "may_partition",
    "meshes_beside_manual_axes",
    "mlir",
    "new_check",
    "new_primitive",
    "parse_sharding_rule",
    "primitive_batchers",
    "primitive_jvps",
    "primitive_transposes",
    "program_leaves",
    "read_saved_trees_as_programs",
    "register_scan_lowering",
    "register_two_views",
    "runs_at_once",
    "scan_counts",
    "scan_lowering_missing",
    "source_line",
    "spec_over",
    "symbolic_zero_like",
    "typeof",
    "unsigned_attribute",
    "varying_alike",
    "with_result_shardings",
    "without_mesh",
    "x64_enabled",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
BatchTracer = _batching.BatchTracer
Primitive = _core.Primitive  # as in jax.extend.core, whose import takes an eighth of the time of ours
ShapedArray = jax.core.ShapedArray
Tracer = jax.core.Tracer
_DIFFERENTIATED = (_ad.JVPTracer, _ad.LinearizeTracer)
Zero = ad.Zero
UndefinedPrimal, is_undefined_primal = ad.UndefinedPrimal, ad.is_undefined_primal
primitive_jvps = ad.primitive_jvps
primitive_transposes = ad.primitive_transposes
primitive_batchers = batching.primitive_batchers
typeof = _core.typeof
hide_frames_of = _traceback_util.register_exclusion  # in tracebacks that JAX shortens
parse_sharding_rule = str_to_sdy_sharding_rule


class _OperatorPrimitive(Primitive):
    """A primitive with several results, whose operands all vary over the same manual mesh axes."""

    multiple_results = True

    def __init__(self, name: str, complete: Callable[[dict[str, Any]], dict[str, Any]]):
        super().__init__(name)
        self._complete = complete

    def bind(self, /, *args: Any, **params: Any) -> Any:
        return super().bind(*match_manual_axes(args), **self._complete(params))


def register_two_views(cls: type, of_users: Sequence[Any], of_programs: Sequence[Any]) -> None:
    """Register a pytree with two views, each as functions that flatten and unflatten it.

    Functions over leaves, such as `jax.tree.map`, and `jax.vmap` see the first one, programs (`jit`, `scan`) the other.
    """
    of_tree = (_tree_util.default_registry, _tree_util.none_leaf_registry)
    for registry in of_tree:
        registry.register_node(cls, *of_users, None)
    for registry in (_tree_util.tracing_registry, _tree_util.dispatch_registry):
        registry.register_node(cls, *of_programs, None)


@functools.cache
def read_saved_trees_as_programs() -> None:
    """Let `jax.export.deserialize` return the trees of operands in the second view, in which JAX compares them."""
    try:
        from jax._src.export import serialization as _serialization
    except ImportError:  # without the package flatbuffers JAX reads no saved programs
        return
    read = _serialization._deserialize_pytreedef

    def read_as_program(*args: Any, **kwargs: Any) -> Any:
        tree: Any = read(*args, **kwargs)
        return program_leaves(tree.unflatten([0.0] * tree.num_leaves))[1]

    _serialization._deserialize_pytreedef = read_as_program


def code_of(name: str) -> CodeType | None:
    """Return the code of a function of JAX, "module.function" of what is private, or None if there is none."""
    found: Any = jax._src
    for part in name.split("."):
        found = getattr(found, part, None)
    found = found.args[0] if isinstance(found, functools.partial) else found  # as decorators leave it
    return getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None


def first_of_batch(x: Any) -> Any:
    """Return one element of a value that `jax.vmap` is tracing, or x; for values that are known to be all equal."""
    while isinstance(x, BatchTracer) and isinstance(x.batch_dim, int) and x.val.shape[x.batch_dim]:
        x = jax.lax.index_in_dim(x.val, 0, x.batch_dim, keepdims=False)
    return x


def program_leaves(tree: Any) -> tuple[list[Any], Any]:
    """Flatten a tree as `jax.jit` does with its arguments."""
    return _tree_util.tracing_registry.flatten(tree)


def new_primitive(
    name: str,
    abstract_eval: Callable[..., Any],
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda params: params,
) -> Primitive:
    """Make a primitive that is compiled in eager calls, too, with several results; `complete` gets parameters."""
    primitive = _OperatorPrimitive(name, complete)
    primitive.def_impl(functools.partial(_dispatch.apply_primitive, primitive))
    primitive.def_abstract_eval(abstract_eval)
    # Lowering must get the devices of the mesh, which a sharding rule partitions over.
    _dispatch.prim_requires_devices_during_lowering.add(primitive)
    return primitive


def new_check(name: str, eager: Callable[..., None], lowered: Callable[..., None]) -> Primitive:
    """Make a primitive without results that JAX never drops, as it has the effect of `jax.debug.callback`.

    Outside of a trace `eager(*operands, **params)` runs; `lowered`, with the same arguments, is what is compiled.
    """

    def looked_at(*operands: Any, **params: Any) -> list[Any]:
        eager(*operands, **params)
        return []

    def compiled(*operands: Any, **params: Any) -> list[Any]:
        run = functools.partial(lowered, **params)
        mesh = _core.typeof(operands[0]).sharding.mesh  # where axes are explicit, single elements cannot be taken
        if mesh.explicit_axes:
            everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
            run = jax.sharding.auto_axes(run, axes=mesh.explicit_axes, out_sharding=everywhere)
        run(*operands)
        return []

    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(looked_at)
    primitive.def_effectful_abstract_eval(lambda *_, **__: ([], {_debugging.debug_effect}))
    rule = mlir.lower_fun(compiled, multiple_results=True)
    mlir.register_lowering(primitive, rule)
    mlir.register_lowering(primitive, rule, platform="tpu", cacheable=False)  # as JAX does for its callbacks
    primitive_jvps[primitive] = lambda operands, _, **params: (primitive.bind(*operands, **params), [])
    primitive_transposes[primitive] = lambda _, *operands, **__: [None] * len(operands)
    return primitive


def symbolic_zero_like(primal: Any) -> Any:
    """Return the symbolic zero tangent of a value (of type float0 for integers)."""
    return Zero(_core.typeof(primal).to_tangent_aval())


def match_explicit_axes(value: Any, like: Any) -> Any:
    """Split a value like a type over the explicit axes of a mesh, as JAX requires for tangents and cotangents."""
    if value is None or isinstance(value, Zero) or not like.sharding.mesh.explicit_axes:
        return value
    return value if _core.typeof(value).sharding == like.sharding else jax.sharding.reshard(value, like.sharding)


def match_manual_axes(operands: Sequence[Any]) -> Sequence[Any]:
    """Make all operands vary over the same mesh axes, like those of JAX's primitives inside `shard_map`."""
    return _core.auto_insert_reshard(*operands)


def varying_alike(tree: Any, *others: Any) -> Any:
    """Make arrays vary over the mesh axes of all of them and of others, as what a loop carries inside `shard_map`."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, match_manual_axes([*leaves, *jax.tree.leaves(others)])[: len(leaves)])


def abstract_result(
    name: str, operands: Sequence[Any], shape: Sequence[int], dtype: Any, spec: Any = None
) -> ShapedArray:
    """Return a result that varies over the manual mesh axes of the operands, sharded by `spec` over explicit ones."""
    varying = _core.standard_vma_rule(name, *operands)
    sharding = _core.get_cur_mesh_sharding(spec)
    mat = _core.ManualAxisType(varying=varying) if varying else _core.empty_mat
    return ShapedArray(tuple(shape), dtype, sharding=sharding, manual_axis_type=mat)


def for_export(ctx: mlir.LoweringRuleContext) -> bool:
    """Return whether a lowering is for `jax.export`, that is, for another process."""
    return bool(ctx.module_context.lowering_parameters.for_export)


def unsigned_attribute(value: int) -> Any:
    """Return a 64-bit unsigned number as an attribute; JAX's own function does not support the upper half."""
    return _ir.IntegerAttr.get(_ir.IntegerType.get_unsigned(64), value - (value >> 63 << 64))


def lowering_platforms(ctx: mlir.LoweringRuleContext) -> tuple[str, ...]:
    """Return the platforms that a lowering is for, in JAX's words: "cpu", "cuda" ..."""
    return tuple(ctx.platforms or ctx.module_context.platforms)


def infer_types(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Return the types of a function's results from shapes and dtypes only, without the surrounding mesh."""
    avals: list[Any] = [_core.typeof(x) for x in operands]
    structs = [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in avals]
    with _config._check_vma(False), jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh):
        return jax.eval_shape(function, *structs)


def with_result_shardings(function: Callable[..., Any], results: Sequence[Any]) -> Callable[..., Any]:
    """Let XLA choose how `function` is split over a mesh with explicit axes; its results are split as given."""
    shardings = [_core.typeof(x).sharding for x in results]  # type: ignore[attr-defined]
    if not any(sharding.mesh.explicit_axes for sharding in shardings):
        return function
    return jax.sharding.auto_axes(function, out_sharding=shardings)


def may_partition(ctx: mlir.LoweringRuleContext) -> bool:
    """Return whether XLA may partition what is lowered: more than one device, not all manual, and not for export.

    An exported program must not contain the partitioner's callback, which is an address in this process.
    """
    axes: Any = ctx.module_context.axis_context
    if for_export(ctx) or not jax.config.jax_use_shardy_partitioner:  # type: ignore[attr-defined]
        return False
    if isinstance(axes, _sharding_impls.SPMDAxisContext):
        return set(axes.manual_axes) != set(axes.mesh.axis_names)
    return isinstance(axes, _sharding_impls.ShardingContext) and axes.num_devices > 1


def lower_alone(function: Callable[..., Sequence[Any]], ctx: mlir.LoweringRuleContext, *operands: Any) -> Any:
    """Lower a function without the surrounding mesh and its manual and explicit axes."""
    with _without_mesh(ctx.avals_in) as avals:
        inner = ctx.replace(avals_in=avals, tokens_in=_TokensOnDemand())
        results = mlir.lower_fun(function, multiple_results=True)(inner, *operands)
    return [_mlir.lower_with_sharding_in_types(ctx, x, out) for x, out in zip(results, ctx.avals_out, strict=True)]


@contextlib.contextmanager
def call_site_last(kind: type[Exception]) -> Iterator[None]:
    """Put JAX's stack trace of the lowered call behind the causes of an error of this kind, where JAX adds no other.

    JAX would put it before the causes, so that it would be the error's `__cause__`.
    """
    try:
        yield
    except kind as error:
        last: BaseException = error
        while last.__cause__ is not None:
            last = last.__cause__
        if last is not error and not _source_info.has_user_context(error):
            call_site = _source_info.user_context(_source_info.current().traceback)
            call_site.__enter__()
            call_site.__exit__(type(last), last, None)
        raise


class _TokensOnDemand(_mlir.TokenSet):
    """The order of the callbacks of one kernel, which is not visible to JAX outside of the kernel."""

    def get(self, effect: Any) -> Any:
        if effect not in self._tokens:
            self._tokens[effect] = _mlir.create_token()
        return self._tokens[effect]

    def subset(self, effects: Sequence[Any]) -> _mlir.TokenSet:
        return _mlir.TokenSet({effect: self.get(effect) for effect in effects})

    def update_tokens(self, tokens: _mlir.TokenSet) -> _mlir.TokenSet:
        return _TokensOnDemand({**self._tokens, **dict(tokens.items())})


def directly(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function within which `jax.jit` does nothing: a third of the time to trace functions of `jax.numpy`.

    These are a `jax.jit` each, and so are operators: in a program they are the same, and only the time to trace it
    differs. The function must run no loop of JAX and call no function of users: Python would run the turns of loops.
    """

    @functools.wraps(function)
    def without_jit(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with jax.disable_jit():
            return function(*args, **kwargs)

    return without_jit


def is_tracing() -> bool:
    """Return whether calls are traced at this point, rather than run."""
    return not _core.trace_state_clean()


def interpreted_pallas() -> contextlib.AbstractContextManager[None]:
    """Trace Pallas kernels, of any platform, so that Pallas's own interpreter runs them.

    This is the interpreter of `interpret=True`. The one that simulates a TPU's memory has one memory for the whole
    process, so kernels that XLA runs at the same time would disturb each other.
    """
    from jax.experimental.pallas import tpu

    interpret: Any = True
    return tpu.force_tpu_interpret_mode(interpret)


@contextlib.contextmanager
def _without_mesh(avals: Sequence[Any]) -> Iterator[list[ShapedArray]]:
    with _config._check_vma(False), jax.sharding.use_abstract_mesh(_mesh.empty_abstract_mesh):
        yield [ShapedArray(x.shape, x.dtype, weak_type=x.weak_type) for x in avals]


def inner_jaxprs(jaxpr: Any) -> Iterator[Any]:
    """Yield the jaxprs within a jaxpr."""
    yield from _core.subjaxprs(jaxpr)


def jaxprs_of(eqn: Any) -> Iterator[Any]:
    """Yield the jaxprs that an equation holds."""
    yield from _core.jaxprs_in_params(eqn.params)


def closed_jaxpr(jaxpr: Any) -> Any:
    """Return a jaxpr with its constants: it may have none of its own, which JAX 0.12 does not tell apart."""
    return jaxpr if hasattr(jaxpr, "consts") else getattr(_core, "ClosedJaxpr")(jaxpr, ())  # noqa: B009


def calls_python(function: Callable[..., Sequence[Any]], ctx: mlir.LoweringRuleContext) -> bool:
    """Return whether a function calls back into Python, as with `jax.debug.print` or `jax.pure_callback`."""

    def has_callback(jaxpr: Any) -> bool:
        here = any("callback" in eqn.primitive.name for eqn in jaxpr.eqns)
        return here or any(map(has_callback, _core.subjaxprs(jaxpr)))

    with _without_mesh(ctx.avals_in) as avals:
        jaxpr = jax.make_jaxpr(function)(*avals).jaxpr
    return bool(jaxpr.effects) or has_callback(jaxpr)


def hands_over_batches(function: Callable[..., Any], operands: Sequence[Any]) -> bool:
    """Return whether a function that is batched calls foreign code, by `jax.ffi.ffi_call`, with a whole batch."""

    def has_whole_batch(jaxpr: Any) -> bool:
        calls = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "ffi_call"]
        whole = any(not str(eqn.params["vmap_method"]).startswith("sequential") for eqn in calls)
        return whole or any(map(has_whole_batch, _core.subjaxprs(jaxpr)))

    return has_whole_batch(jax.make_jaxpr(function)(*operands).jaxpr)


def alone(
    function: Callable[..., Sequence[Any]], outs: Sequence[ShapedArray], x64: bool
) -> Callable[..., Sequence[Any]]:
    """Return `function`, with these results, to be lowered alone, with 64 bits enabled or not."""
    return lambda *operands: _alone.bind(*operands, function=function, outs=tuple(outs), x64=x64)


_BESIDE = (  # settings of how programs are compiled, found again or reported, which do not change what is traced
    "jax_compilation_cache", "jax_dump", "jax_enable_compilation_cache", "jax_log", "jax_persistent_cache",
    "jax_platform", "jax_num_cpu_devices", "jax_traceback",
)  # fmt: skip


def tracing_settings() -> str:
    """Return JAX's settings, here and now, on which what it traces may depend: a text."""
    names = sorted(name for name in jax.config.values if not name.startswith(_BESIDE))
    return repr([(name, getattr(jax.config, name, None)) for name in names])


def x64_enabled() -> bool:
    """Return whether arrays may have 64 bits, here and now."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


_alone = new_primitive("alone", lambda *_, outs, **__: [ShapedArray(out.shape, out.dtype) for out in outs])
_kept: list[Any] = []  # objects that compiled shards point to: JAX releases them once a shard is lowered


def _lower_shard(
    ctx: mlir.LoweringRuleContext, *operands: Any, function: Callable[..., Any], outs: Any, x64: bool
) -> Any:
    with jax.enable_x64(x64):  # XLA partitions in a separate thread, without the caller's `with` blocks
        results = lower_alone(function, ctx, *operands)
    if ctx.module_context.host_callbacks:  # XLA would search for them next to the whole program, and not find them.
        raise NotImplementedError(
            "the kernel of an operator with a sharding rule calls an operator that calls back into Python, as "
            "with jax.pure_callback; give the inner one a kernel without callbacks, or the outer one no sharding rule"
        )
    _kept.extend(ctx.module_context.keepalives)
    return results


mlir.register_lowering(_alone, _lower_shard)


def meshes_beside_manual_axes(ctx: mlir.LoweringRuleContext) -> tuple[Any, Any] | None:
    """Return, for lowering where some mesh axes are manual, the whole mesh and one of the other axes.

    The devices of the second are arbitrary: XLA partitions over it within each group of devices.
    """
    axes = ctx.module_context.axis_context
    if not isinstance(axes, _sharding_impls.SPMDAxisContext):
        return None
    sizes = {name: size for name, size in axes.mesh.shape.items() if name not in axes.manual_axes}
    devices = axes.mesh.devices.flatten()[: math.prod(sizes.values())]
    return axes.mesh, jax.sharding.Mesh(devices.reshape(tuple(sizes.values())), tuple(sizes))


def spec_over(mesh: jax.sharding.Mesh, array: jax.ShapeDtypeStruct) -> jax.sharding.PartitionSpec:
    """Return how XLA's partitioner splits an array over a mesh."""
    if isinstance(array.sharding, jax.sharding.NamedSharding):
        return array.sharding.spec
    spec = _sharding_impls.parse_flatten_op_sharding(array.sharding._to_xla_hlo_sharding(array.ndim), mesh)[0]
    return jax.sharding.PartitionSpec(*spec, *(None,) * (array.ndim - len(spec)))


def described_devices(ctx: mlir.LoweringRuleContext) -> str:
    """Describe the devices of a lowering, and their mesh."""
    axes = ctx.module_context.axis_context
    if isinstance(axes, _sharding_impls.ShardingContext):
        return repr(([device.id for device in axes.device_assignment or ()], axes.abstract_mesh))
    ids = [device.id for device in axes.mesh.devices.flat]
    return repr((ids, list(axes.mesh.shape.items()), sorted(axes.manual_axes)))


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Return how many constants and how many carried values a `scan` has."""
    if "ft_in" in params:  # from 0.11 on
        consts, carry, _ = params["ft_in"].unpack()
        return len(consts), len(carry)
    return params["num_consts"], params["num_carry"]


def _scan_lowering() -> Callable[..., Any] | None:
    """Return how JAX itself lowers its scan, or None in a release that keeps it elsewhere."""
    try:
        rule = _mlir._lowerings[jax.lax.scan_p].rule
    except (AttributeError, KeyError):
        return None
    return rule


_SCAN_LOWERING = _scan_lowering()


def scan_lowering_missing() -> str | None:
    """Return why this JAX does not let others lower its scan, or None."""
    if _SCAN_LOWERING is None:
        return f"JAX {jax.__version__} keeps the lowering of jax.lax.scan where this release does not find it"
    return None


def register_scan_lowering(lower: Callable[..., Any]) -> None:
    """Let `lower(default, ctx, *operands, **params)` lower JAX's scan, on all platforms; `default` is what JAX does.

    A rule for one platform would change programs that JAX lowers for several. Does nothing if `scan_lowering_missing`.
    """
    if _SCAN_LOWERING is not None:
        mlir.register_lowering(jax.lax.scan_p, functools.partial(lower, _SCAN_LOWERING))


def key_function(eqn: Any, ndim: int) -> Callable[..., Any] | None:
    """Return what an equation of `jax.random` does to the words of one key, for keys of threefry, or None.

    `ndim` is the number of axes of its keys, over which the function is mapped.
    """
    p, name = eqn.params, eqn.primitive.name
    try:
        impl: Any = p["impl"] if name == "random_seed" else eqn.invars[0].aval.dtype._impl
        if impl.name != "threefry2x32":
            return None
        functions: dict[str, Callable[..., Any]] = {
            "random_bits": lambda key: impl.random_bits(key, p["bit_width"], p["shape"]),
            "random_split": lambda key: impl.split(key, p["shape"]),
            "random_fold_in": impl.fold_in,
            "random_seed": impl.seed,
        }
        function = functions[name]
    except (AttributeError, IndexError, KeyError):
        return None
    for _ in range(ndim):
        function = jax.vmap(function)
    return function


def without_mesh() -> contextlib.AbstractContextManager[Any]:
    """Trace functions without the surrounding mesh and its manual and explicit axes."""
    return _without_mesh(())


def bind_equation(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Apply the primitive of an equation of a jaxpr to operands, and return its results."""
    results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return list(results) if eqn.primitive.multiple_results else [results]


def function_of(eqn: Any) -> Callable[..., Any] | None:
    """Return the function of JAX that the primitive of an equation stands for, of operands and parameters, or None.

    It is what JAX makes of a primitive above its own (from 0.11 on), what it lowers, or else what runs in eager calls.
    """
    primitive: Any = eqn.primitive
    if primitive.is_high(*(atom.aval for atom in eqn.invars), **eqn.params):
        return primitive.to_lojax
    for rules in (_mlir._lowerings, _mlir._platform_specific_lowerings["cpu"]):
        rule = getattr(rules.get(primitive), "rule", None)
        if getattr(rule, "__code__", None) is _LOWERS_FUNCTION:
            return inspect.getclosurevars(rule).nonlocals.get("fun")  # type: ignore[arg-type]
    own = primitive.__dict__.get("impl")
    return None if getattr(own, "func", None) is _dispatch.apply_primitive else own


_LOWERS_FUNCTION = _mlir.lower_fun(lambda: ()).__code__


def source_line(eqn: Any, without: str) -> str:
    """Return "file:line" of the user's code that an equation of a jaxpr comes from, or an empty string.

    Lines of files in the folder `without` are skipped.
    """
    frames = _source_info.user_frames(eqn.source_info.traceback)
    lines = (f"{frame.file_name}:{frame.start_line}" for frame in frames if not frame.file_name.startswith(without))
    return next(lines, "")


_partitionings: dict[bytes, Any] = {}


def name_partitioning(values: Any, name: str) -> Any:
    """Name what `custom_partitioning` lowered to by content; JAX names it by an address of this process.

    With an address, the persistent compilation cache would miss, or return a wrong entry if another process had the
    same address.
    """
    for value in jax.tree.leaves(values):
        op = value.owner
        while hasattr(op, "attributes") and "sdy.sharding_rule" not in op.attributes and len(op.operands):
            op = op.operands[0].owner  # past the constraints that explicit meshes add after it
        if hasattr(op, "attributes") and "sdy.sharding_rule" in op.attributes:
            callbacks = _custom_partitioning._sharding_callbacks
            info = callbacks[op.attributes["backend_config"].value.encode()]
            context = info.module_context
            info.module_context = SimpleNamespace(platforms=context.platforms, backend=context.backend)
            callbacks[name.encode()] = _partitionings[name.encode()] = info
            op.attributes["backend_config"] = _ir.StringAttr.get(name)
    return values


def is_traced(x: Any) -> bool:
    """Say whether the value of an array, or of each element that `jax.vmap` maps over, is unknown or differentiated."""
    return isinstance(_unmapped(x), Tracer)


def is_differentiated(x: Any) -> bool:
    """Say whether JAX differentiates with respect to an array here; within `jax.jit` it may do so later, unseen."""
    return isinstance(_unmapped(x), _DIFFERENTIATED)


def runs_at_once() -> bool:
    """Say whether JAX runs operations here, rather than adds them to a program."""
    return not isinstance(jax.numpy.add(1, 1), Tracer)


def behind(x: Any) -> Any:
    """Return the array behind tracers of transformations that JAX runs at once, or the tracer of a program."""
    while isinstance(x, (BatchTracer, *_DIFFERENTIATED)):
        x = x.val if isinstance(x, BatchTracer) else x.primal
    return x


def canonical(x: Any) -> Any:
    """Return an array for `jax.custom_jvp`: within `jax.jit`, one that `jax.vmap` maps must not be of NumPy."""
    return x if isinstance(_unmapped(x), (Tracer, jax.Array)) or not isinstance(x, Tracer) else jax.numpy.array(x)


def _unmapped(x: Any) -> Any:
    while isinstance(x, BatchTracer):
        x = x.val
    return x
