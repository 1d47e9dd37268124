# SPDX-License-Identifier: Apache-2.0
"""`simulate`: many steps of a network as a pure function of its state, parameters and inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from ..._compat import canonical, is_differentiated, is_traced, varying_alike
from ...errors import NetworkError
from ...typing import PyTree
from ..engines import engine_name
from ..plan.connections import in_one_part
from ..plan.plan import Plan
from ..run.neurons import Label
from ..run.recorded import Wanted
from ..run.requests import Every, parsed, wanted
from ..state import NetworkState
from ..surrogate import SpikeTimes, fast_sigmoid
from .carried import coupling_weights
from .components import Runner
from .integers import exact_integers
from .kept import kept_program
from .limits import check_sums, doubts, resolved
from .loop import run_component
from .outputs import Outputs
from .params import (
    check_mapping,
    check_names,
    given_weights,
    neuron_params,
    plastic_params,
    step_holds,
    with_initial_weights,
)
from .parted import records_of, whole_populations
from .passes import Between, Fixed, Passes, fixed_of, passes
from .plastic import plastic_program, run_steps
from .prepare import check_keys, check_surrogate, checked_count, checked_inputs, checked_keys, checked_state, named_keys
from .quanta import Receptor, dtypes_after, dtypes_of_sums, fractional, in_quanta_of
from .room import check_outputs

__all__ = ["placed", "simulate"]

Array = Any
Arrays = Mapping[str, Array]
Own = tuple[Mapping[str, Arrays], Arrays, Arrays, Arrays]  # parameters, weights, inputs and keys of a call
Results = tuple[NetworkState, dict[str, Array]]
Run = Callable[..., Results]
_USUAL = fast_sigmoid()
_NATIVE = ("cuda", "numba")  # the backends whose native code runs in programs of JAX


def simulate(
    sim: PyTree,
    state: NetworkState,
    params: Mapping[Label, Any],
    steps: int,
    inputs: Mapping[Label, Array] | None = None,
    record: Wanted | Label | Every | Iterable[Label | Every] = (),
    surrogate: Callable[[Array], Array] | None = _USUAL,
    checkpoint_every: int | None = None,
    keys: Mapping[Label, Array] | None = None,
) -> tuple[NetworkState, dict[str, Array]]:
    """Run a network for some steps, as a pure function: for `jax.jit`, `jax.vmap` and `jax.grad`.

    Spikes are differentiated with a surrogate: `spike = v >= threshold` has the derivative `surrogate(v - threshold)`
    with respect to the margin `v - threshold`, and the choice `jnp.where(spike, reset, v)` has none with respect to
    `spike`. Spikes that no comparison of floats decides, such as those drawn at random, have no derivative.

    Weights in `params` count as they are: they are not rounded to multiples of a quantum, unlike those of a build.
    Dense projections multiply them with the precision of `jax.default_matmul_precision`, which on GPUs may be lower
    than that of float32; sums of the weights of a build are exact.
    Spikes that are on their way in `state` keep the weights with which they were sent.

    Of plastic synapses, weights, states and traces are in `state`, and come back changed. `params` may have, by plastic
    projection, parameters of its rules, and "weights", which are those before step 0: a state of a later step has its
    own, and takes no others. Those of `params` and of `state` are within `low` and `high`. All else is an error; where
    it is known only when JAX's program runs, all floats that are returned are NaN. With `backend="numba"`, a call of
    which no derivative is asked runs native code, also where these weights are traced. Derivatives, and calls with
    `backend="jax"` or `"cuda"`, run plain JAX: they pass through the rules, but not through when these are called, and
    weights are delivered as they are, not rounded to quanta.

    Values of spikes are differentiated, too. A spike with a value outside the `value_range` of its population delivers
    nothing, and makes the float states of its neuron NaN.

    A network that was built with `backend="cuda"` or `"numba"` runs native code within JAX's program. If all weights
    are known when it is called, and no derivative is asked for, that is the code of its method `run`, with the same
    bits. Under `jax.vmap`, elements run side by side: on a GPU each on blocks of its own, on a CPU each in a thread;
    several `vmap` are one batch. Means of `random.poisson` that are one for a population are those of the build; with
    `"cuda"` so are the keys. With other weights in `params` it does what a build with these weights does, to the last
    bit: the network is built anew for them, which takes time, and the last ones are cached by their content. A program
    that JAX has traced keeps the weights and parameters of its trace, and the memory of the weights. On several GPUs, a
    call is one `shard_map` over them, and waits until all of them have ended: states are divided by neurons on a mesh
    with the axis `gpus`, where their number can be, and elements of `jax.vmap` run one after another.

    If weights are traced, by `jax.jit` or a loop, or a derivative is asked for, the call trains. Weights are floats
    then, as with `backend="jax"`. Populations whose spikes return to them, and all others with a state, run in native
    code, all steps forward in one call and all steps back in another, with the samples of `jax.vmap` side by side. On a
    GPU, weights within a population are rounded to 15 bits of the largest one, and adjoints to 11; adjoints that are
    too large for 16 bits become NaN. With `jax.default_matmul_precision("highest")` these weights have 23 bits, and
    adjoints 16 and the range of float32; on a CPU, weights within a population are summed in float64. This has the
    gradients of `jax.grad`, `jax.vjp` and `jax.jacrev`, but no forward mode and no second derivatives. Weights within a
    population that are not in `params` are constants of that code, and their sums are as exact as in plain JAX; on a
    GPU they are if no weight is more than 16383 quanta, 4194175 with the highest precision, and none into the same
    receptor is in `params`. Under `jax.vmap`, weights of several networks are stored once for each network. What native
    code lacks runs in plain JAX: plastic synapses, populations of float64, those with couplings, rules without an
    adjoint, such as those whose spikes have values, `spike_times`; on a GPU also populations that project to each other
    or to themselves and are too large for a cluster of blocks. `Simulation.report` says which populations these are,
    and why. Take `jax.jit(jax.grad(f))` instead of `jax.grad(jax.jit(f))`: a function that `jax.jit` has traced without
    a derivative, and with known weights, runs the code of `run`, and raises when it is differentiated.

    Args:
        sim: A simulation that was built with `backend="jax"`, `"numba"` or `"cuda"`, or a plan. The simulation itself
            does not change.
        state: The state before the first step.
        params: By population the parameters by name, () or (neurons,); by part of a population, such as
            `{exc[:100]: {"tau": 15.0}}`, those of its neurons, which replace those of the population; by projection or
            coupling its weights, (), (1,) or (entries,), in the unit of what arrives, or a matrix (sources, targets),
            which is zero where there is no synapse. Two parts that give the same neuron the same parameter are an
            error. Parameters and weights that are left out are those of now: of the build, or of `Simulation.set`.
            Numbers that `Simulation.set` refuses raise, such as NaN, or another time step as `dt`: it is part of the
            network. Of what JAX traces, that is known when the program runs: if traced weights are NaN or infinite, a
            traced `dt` is not the time step of the network, a traced matrix is not zero where there is no synapse,
            traced sums in the state are too large, or traced integers become floats that do not have them, all floats
            that are returned are NaN. Derivatives are then those of the network with its own time step. Other traced
            parameters are taken as they are, also NaN.
        steps: How many steps, a Python integer.
        inputs: What is added to what arrives: by "population.receptor", (steps, neurons), or (steps,) for
            the same to all neurons; or to a part of a population, as for `Simulation.run`.
        record: What to record, as for `Simulation.run`: `"exc.spikes"`, `every(5, "exc.v")` or several of them.
        surrogate: The derivative of a spike with respect to its margin, as a function of the margin: one of
            `network.surrogate`, or any other. None: spikes have no derivative. The default, `fast_sigmoid(25)`, is
            for margins of about 1; for voltages in mV a slope of about 1 reaches more neurons.
        checkpoint_every: For the gradient, keep the state only after each chunk of this many steps, and compute the
            steps within a chunk again: less memory, more time.
        keys: By population the two words of its random numbers, uint32 (2,), instead of those of the network's seed.

    Returns:
        The state after the last step, and what was recorded: "exc.spikes" float32 (steps, neurons) of 0 and 1,
        "exc.counts" float32 (neurons,), "exc.rate" float32 (steps,), which is how many neurons spiked in each step, all
        of them differentiable, and float64 in a network of float64; samples by their labels, (ceil(steps / every),
        chosen), whose last row is 0 if one sample less falls within the run. The sums in the state are numbers of
        quanta, of the dtypes of those in `state`; but where weights are given, integers become floats, for such sums
        need not be whole numbers. `state.with_floats()` has floats from the start: for a loop such as `jax.lax.scan`
        over calls with weights, and for derivatives through several calls. With native code sums stay whole numbers, of
        the quanta that suit the given weights, which the state says; only `jax.vmap` over weights of different quanta
        returns floats.

    Raises:
        NetworkError: The simulation has another backend; it has native code, and the call needs `"jax"`; parameters
            are NaN; weights are NaN or infinite; `dt` is not the time step of the network; sums in the state are too
            large; or JAX cannot trace the surrogate with a number.
        MemoryError: What is recorded, by all elements of `jax.vmap`, does not fit in memory. In this case nothing runs.
            Within `jax.jit`, XLA says so when the program runs; but what native code on the CPU stores for a gradient
            is checked when the program is compiled.
        RoundedWeightsWarning: A warning: weights were rounded by more than 2**-9 of their value; with `backend="jax"`
            those of the build that `params` do not replace.
        UnknownNameError: A population, parameter, projection or receptor does not exist.
        ShapeError: A parameter, an input or the state has another shape.

    Examples:
        >>> import brainevent as be
        >>> network = be.Network([be.models.lif_current("cells", 3, current=300.0)], dt=0.1)
        >>> sim = network.build(backend="jax")
        >>> state, out = be.simulate(sim, sim.state, sim.params, 200, record="cells.spikes")
        >>> out["cells.spikes"].shape, int(state.step)
        ((200, 3), 200)
    """
    steps = checked_count("steps", steps)
    check_surrogate("simulate", surrogate)
    every = None if checkpoint_every is None else min(checked_count("checkpoint_every", checkpoint_every), steps)
    keys = None if keys is None else named_keys(keys)
    if inputs is not None:
        check_mapping("inputs", inputs)
    exact = exact_integers(sim, state, params, inputs)
    params, inputs, record, of_parts = whole_populations(sim, params, steps, inputs, record)
    if of_parts:
        after, found = simulate(sim, state, params, steps, inputs, record, surrogate, checkpoint_every, keys)
        results = after, records_of(of_parts, found)
    elif _runs_as_built(sim, (state, params, inputs)):
        results = _natively(sim, state, params, steps, inputs or {}, record, keys)
    else:
        results = _in_jax(sim, state, params, steps, inputs, record, surrogate, every, keys)
    return resolved(exact, *results)


def _in_jax(
    sim: PyTree,
    state: NetworkState,
    params: Mapping[str, Any],
    steps: int,
    inputs: Mapping[Label, Array] | None,
    record: Wanted | Label | Every | Iterable[Label | Every],
    surrogate: Callable[[Array], Array] | None,
    every: int | None,
    keys: Mapping[str, Array] | None,
) -> Results:
    """Run steps in JAX, for derivatives and given weights, or with `backend="jax"`."""
    plan, runner = _plan(sim), _runner(sim)
    asked = record if isinstance(record, Wanted) else wanted(parsed(plan, record))
    _check_reach(plan, surrogate)

    _check_width(plan, (state, params, inputs, keys))
    check_names(plan, params)
    check_outputs(plan, asked, steps, (state, params, inputs, keys))
    state, params, inputs, keys = jax.tree.map(canonical, (state, params, inputs, keys))
    with jax.enable_x64(plan.dtype == "float64"):
        given = checked_inputs(plan, inputs or {}, steps, narrow=not plan.plastic)
        neurons, weights = neuron_params(plan, params) | plastic_params(plan, params), given_weights(plan, params)
        plan.warn_of_rounding(weights)
        state, within = with_initial_weights(plan, params, checked_state(plan, in_quanta_of(plan, state)))
        within = step_holds(plan, params, within)
        check_sums(plan, state, weights)
        floats = fractional(plan, weights, state)
        doubt = doubts(plan, weights, state, floats)
        weights |= coupling_weights(plan, weights)
        own = neurons, weights, given, checked_keys(plan, keys or {})
        of = plan if isinstance(sim, Plan) else sim.engine.plan
        run = _run_of(plan, asked, steps, surrogate, every, floats, runner)
        sums, constant = tuple(dtypes_of_sums(plan).items()), of if plan.plastic else None
        key = steps, every, asked.key, frozenset(floats), tuple(weights), sums, constant
        program = None if of is sim or _explicit_mesh(state) else kept_program(sim.engine, key, surrogate, run)
        if program is not None:
            return resolved(within, *program(of, state, own, doubt.fine(state, weights)))
        fixed = fixed_of(plan, weights)

        def here(state: NetworkState, own: Own) -> Results:
            return run(state, own, fixed, doubt.fine(state, own[1]))

        return resolved(within, *placed(here, asked, state)(state, own))


def _run_of(
    plan: Plan,
    asked: Wanted,
    steps: int,
    surrogate: Callable[[Array], Array] | None,
    every: int | None,
    floats: Collection[Receptor],
    runner: Runner,
) -> Run:
    """Return a call as a function of the state, what is given, what the network has, and whether sums are fine."""

    def run(state: NetworkState, own: Own, fixed: Fixed, fine: Array | None) -> Results:
        neurons, weights, given, keys = own
        outputs = Outputs(plan, asked, steps, jnp.asarray(state.step, np.uint32))
        if plan.plastic:
            program = plastic_program(plan, outputs, neurons, weights, keys, surrogate)
            return resolved(fine, *run_steps(program, state, given, steps, every, dtypes_after(plan, floats, state)))
        network = passes(plan, outputs, neurons, weights, keys, surrogate, floats, fine, runner, fixed)
        after, rows = _in_chunks(network, state, given, steps, every)
        results = network.state(after, state, dtypes_after(plan, floats, state)), after.filled
        after, filled = resolved(fine, *results)
        return after, {**rows, **filled}

    return run


def _check_reach(plan: Plan, surrogate: Any) -> None:
    """Raise if derivatives by the times of spikes would not go through all of a network."""
    if not isinstance(surrogate, SpikeTimes):
        return
    for what, names in (
        ("coupling", [one.name for one in plan.couplings]),
        ("projection", [*plan.plastic_by_name]),
    ):
        if names:
            raise NetworkError(
                f"simulate: {what} {names[0]}: derivatives by the times of spikes do not go through "
                f"{'couplings' if what == 'coupling' else 'plastic synapses'}; pass another surrogate, such as "
                "fast_sigmoid(25)"
            )


def _runs_as_built(sim: Any, arguments: tuple[Any, Any, Any]) -> bool:
    """Say whether a call runs the native code of `Simulation.run`: weights are known, and nothing is differentiated."""
    if not hasattr(sim, "engine") or engine_name(sim.engine) not in _NATIVE:
        return False
    if sim.engine.plan.plastic and engine_name(sim.engine) == "cuda":
        return False
    params = arguments[1] if isinstance(arguments[1], Mapping) else {}
    own = {link.name for link in sim.engine.plan.links()}
    if any(is_traced(value) for name, value in params.items() if name in own):
        return False
    return not any(is_differentiated(leaf) for leaf in jax.tree.leaves(arguments))


def _natively(
    sim: Any,
    state: Any,
    params: Mapping[str, Any],
    steps: int,
    inputs: Mapping[str, Array],
    record: Wanted | Label | Every | Iterable[Label | Every],
    keys: Mapping[str, Array] | None,
) -> tuple[NetworkState, dict[str, Array]]:
    """Run steps of a native engine; raise for what it cannot do."""
    from ..calls.call import run_natively

    name, plan = engine_name(sim.engine), sim.engine.plan  # with the weights of now
    if keys and name == "cuda":
        raise NetworkError(
            "simulate: keys is not supported by backend='cuda', which uses the keys of the build; leave it out, or "
            'build the network with backend="jax"'
        )
    asked = record if isinstance(record, Wanted) else wanted(parsed(plan, record))
    _check_width(plan, (state, params, inputs, keys))
    check_names(plan, params)
    check_keys(plan, keys or {})
    checked_state(plan, replace(state, quanta=None) if isinstance(state, NetworkState) else state)
    state, within = with_initial_weights(plan, params, state)
    own = {**params, **plastic_params(plan, params)}
    device = sim.engine.device.of_jax if name == "cuda" else jax.local_devices(backend="cpu")[0]
    check_outputs(plan, asked, steps, (state, params, inputs, keys), device)
    with jax.enable_x64(plan.dtype == "float64"):
        rows = checked_inputs(plan, inputs, steps)
        results = run_natively(sim.engine, sim._weights, state, own, rows, keys or {}, steps, asked)
        return resolved(step_holds(plan, params, within), *results)


def _check_width(plan: Plan, arguments: Any) -> None:
    """Raise if JAX transforms a run in float64 with floats of 32 bits."""
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
    if plan.dtype == "float64" and traced and jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise NetworkError(
            "simulate: the network was built with dtype='float64', but JAX traces this call with 32-bit floats; "
            "transform and call it within `with jax.enable_x64(True):`, or set jax_enable_x64"
        )


def _plan(sim: Any) -> Plan:
    if isinstance(sim, Plan):
        return sim  # whose weights are in its own order, as `initial_params` returns them
    if not hasattr(sim, "engine"):
        raise NetworkError(f'simulate: sim is {type(sim).__name__}; pass what network.build(backend="jax") returns')
    if engine_name(sim.engine) not in ("jax", *_NATIVE):
        raise NetworkError(
            f"simulate: the simulation runs on {type(sim.engine).__name__}, which JAX cannot transform; "
            'build it with backend="jax", "numba", or "cuda" on a GPU, or call its method run'
        )
    return in_one_part(sim.engine.plan)  # with the weights of now


def _runner(sim: Any) -> Runner:
    """Return what runs the components of a simulation: that of its engine, if it has one."""
    return getattr(getattr(sim, "engine", None), "runner", run_component)


def _in_chunks(
    network: Passes, state: NetworkState, given: Mapping[str, Array], steps: int, every: int | None
) -> tuple[Between, dict[str, Array]]:
    """Run all steps; or chunks of `every` steps, of which the gradient keeps only the first state."""
    chunk = every or min(steps, network.longest)
    run = jax.checkpoint(network.run, static_argnums=2) if every else network.run
    if chunk == steps:
        return run(network.start(state, complete=False), given, steps)
    whole = steps // chunk * chunk
    cut = jax.tree.map(lambda x: x[:whole].reshape(-1, chunk, *x.shape[1:]), given)
    # within a scan nothing is shared that the checkpoint would have to prevent
    in_loop = jax.checkpoint(network.run, prevent_cse=False, static_argnums=2) if every else network.run
    others = network.params, network.weights, network.keys, network.fine, given
    start = varying_alike(network.start(state, complete=True), *others)
    after, rows = jax.lax.scan(lambda before, inputs: in_loop(before, inputs, chunk), start, cut, whole // chunk)
    rows = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), rows)
    if whole == steps:
        return after, rows
    after, rest = run(after, jax.tree.map(lambda x: x[whole:], given), steps - whole)
    return after, jax.tree.map(lambda *x: jnp.concatenate(x), rows, rest)


def _shardings(state: NetworkState) -> Any:
    return jax.tree.map(lambda x: jax.typeof(jnp.asarray(x)).sharding, state)


def _explicit_mesh(state: NetworkState) -> Any:
    """Return the mesh with explicit axes on which a state lies; None if there is none."""
    meshes = (sharding.mesh for sharding in jax.tree.leaves(_shardings(state)))
    return next((mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types), None)


def placed(run: Run, wanted: Wanted, state: NetworkState) -> Run:
    """Return a run from a state, which works on a mesh with explicit axes if the state lies on one."""
    explicit = _explicit_mesh(state)
    if explicit is None:
        return run
    shardings = _shardings(state)

    def on_mesh(*axes: Any) -> NamedSharding:
        return NamedSharding(explicit, PartitionSpec(*axes))

    of = {
        name: next((sharding.spec[0] for sharding in states.values()), None)
        for name, states in shardings.neurons.items()
    }
    results = {
        **{f"{name}.spikes": on_mesh(None, of[name]) for name in wanted.spikes},
        **{f"{name}.counts": on_mesh(of[name]) for name in wanted.counts},
        **{f"{name}.rate": on_mesh(None) for name in wanted.rates},
        **{label: on_mesh(None, None) for label in wanted.samples},
    }
    places = jax.tree.map(lambda sharding: on_mesh(*sharding.spec), shardings)
    return jax.sharding.auto_axes(run, out_sharding=(places, results))
