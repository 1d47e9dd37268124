# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of networks compute from spikes and from the power of a GPU, and what they say of it."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent as be
from benchmarks import energy, microcircuit_statistics
from benchmarks import microcircuit as rates_of
from benchmarks.microcircuit_statistics import OTHERS, Other, Within
from benchmarks.options import Options
from benchmarks.probes import network_energy, network_statistics
from benchmarks.probes.microcircuit import LAYERS
from benchmarks.probes.network_described import DT
from benchmarks.probes.network_statistics import coefficients_of_variation, correlations
from benchmarks.probes.power import Meter, PowerError, joules, read_watts
from benchmarks.process import ProbeError
from benchmarks.report import in_lines
from benchmarks.row import Band, Data, Failed, Row

# ---- statistics of spikes


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9)), unique=True, max_size=60))
def test_irregularity_is_that_of_each_neuron_with_three_intervals(events):
    events.sort()
    times, neurons = (np.array([e[k] for e in events], dtype) for k, dtype in ((0, float), (1, int)))
    found = []
    for neuron in range(10):
        intervals = np.diff(times[neurons == neuron])
        if intervals.size >= 3:
            found.append(intervals.std() / intervals.mean())
    np.testing.assert_allclose(coefficients_of_variation(times, neurons), found, atol=1e-6)


def test_counts_of_neurons_that_spike_are_correlated():
    step = np.arange(0, 4000, 4.0)  # two bins of 2 ms, of which one has a spike
    random = np.random.default_rng(1)
    shared = step + 2 * random.integers(0, 2, step.size)
    other = step + 2 * random.integers(0, 2, step.size)
    times, neurons = np.concatenate([shared, shared, other]), np.repeat([3, 7, 8], step.size)
    order = np.lexsort((neurons, times))
    together, apart, apart_too = correlations(times[order], neurons[order], 4000)
    assert together == pytest.approx(1)
    counts = np.zeros((2, 2000))
    for row, spikes in zip(counts, (shared, other), strict=True):
        row[(spikes / 2).astype(int)] = 1
    assert apart == apart_too == pytest.approx(np.corrcoef(counts)[0, 1])


def test_unconnected_neurons_are_uncorrelated_after_discarded_steps(monkeypatch):
    """Neurons that nobody connects are not correlated, however long they ran before."""
    names, sizes = ("a", "b"), (30, 45)
    sources = [be.models.poisson_source(name, size, rate=60) for name, size in zip(names, sizes, strict=True)]
    network = be.Network(sources, [], dt=DT)
    monkeypatch.setattr(network_statistics, "LAYERS", names)
    monkeypatch.setattr(network_statistics, "SIZES", sizes)
    monkeypatch.setattr(network_statistics, "ours", lambda *_: network.build(seed=3, backend="numba"))
    found = network_statistics.measure("poisson", 3, steps=20_000, discard=3_000)
    statistics = found["statistics"]
    assert statistics["rate"] == pytest.approx([60, 60], rel=0.05)
    assert statistics["CV"] == pytest.approx([1, 1], abs=0.05)
    assert statistics["correlation"] == pytest.approx([0, 0], abs=0.004)


# ---- rows of statistics


def statistics_of(seed, off=None):
    names = ("rate", "sd of rates", "CV", "sd of CV", "correlation", "sd of correlation")
    found = {}
    for name in names:
        other = OTHERS["poisson", name][-1]
        values = other.values if isinstance(other, Other) else [other.low] * 8
        found[name] = [value * (1 + 0.001 * seed) * (1.5 if off == name else 1) for value in values]
    return found


@pytest.mark.parametrize(
    ("off", "missed"), [(None, 0), ("CV", 8), ("correlation", 8), ("sd of CV", 0), ("sd of correlation", 8)]
)
def test_statistics_stand_beside_other_programs(monkeypatch, off, missed):
    def probe(name, arguments, platform):
        assert (name, platform) == ("network_statistics", "gpu")
        if arguments["drive"] == "dc":
            raise ProbeError("network_statistics: exit status 1\nMemoryError")
        return {"statistics": statistics_of(arguments["seed"], off), "digest": "00", "raster": [arguments["seed"]]}

    monkeypatch.setattr(microcircuit_statistics, "run_probe", probe)
    found = list(microcircuit_statistics.measure_gpu_rows(Options(rounds=3)))
    rows = [one for one in found if isinstance(one, Row) and "beside published" not in one.name]
    assert [row.name for row in rows] == [
        f"PD14, poisson drive: {name}, {layer}, beside C++ by hand" for name in statistics_of(0) for layer in LAYERS
    ]
    assert sum(not row.met for row in rows) == missed
    assert all(row.name.split(": ")[1].startswith(f"{off},") for row in rows if not row.met)
    assert [one for one in found if isinstance(one, Data)] == [
        Data("PD14, poisson drive: digests", ["00"] * 3),
        Data("PD14, poisson drive: raster", [0]),
    ]
    assert [str(one) for one in found if isinstance(one, Failed)] == [
        f"PD14, dc drive, seed {seed} FAILED: network_statistics: exit status 1: MemoryError" for seed in range(3)
    ]


def test_bands_are_three_standard_errors_and_rounding():
    samples = [1.0, 2.0, 3.0]
    one, two = (Other("", (2.5,), 1, seeds=seeds).band(0, samples, 10) for seeds in (1, 10**9))
    assert (one.low, one.high) == pytest.approx((25 - 3 * (4 / 3) ** 0.5 - 0.5, 25 + 3 * (4 / 3) ** 0.5 + 0.5))
    assert two.high == pytest.approx(25 + 3 / 3**0.5 + 0.5, rel=1e-6)
    assert Within("", 0.16, 0.25, 2).band(5, samples, 1) == Band(0.155, 0.255)
    assert str(Band(0.155, 0.2549)) == "0.155 to 0.255"
    assert [Band(1, 2).met_by(x) for x in (0.99, 1, 2, 2.01)] == [False, True, True, False]


@settings(max_examples=25)
@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.lists(st.integers() | st.floats(-9, 1e300)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    )
)
def test_files_hold_what_was_found_with_numbers_side_by_side(content):
    text = in_lines(content)
    assert json.loads(text) == content
    assert (
        in_lines({"samples": [1, 2.5e-07, -3], "what": ["[\n1\n]"]}).splitlines()[1] == ' "samples": [1, 2.5e-07, -3],'
    )


# ---- power


@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.floats(0, 700)), min_size=2, max_size=20),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_energy_is_the_area_below_the_lines_between_samples(samples, one, other):
    times = list(itertools.accumulate(between for between, _ in samples))
    watts = [power for _, power in samples]
    begin, end = sorted(times[0] + share * (times[-1] - times[0]) for share in (one, other))
    end = min(end, times[-1])
    inside = [t for t in times if begin < t < end]
    places = [begin, *inside, end]
    area = np.trapezoid(np.interp(places, times, watts), places)
    assert joules(list(zip(times, watts, strict=True)), begin, end) == pytest.approx(area, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("samples", "begin", "end"), [([], 0, 0), ([(1, 5), (2, 5)], 0.5, 2), ([(1, 5), (2, 5)], 1, 3)]
)
def test_energy_of_a_time_without_samples_is_not_guessed(samples, begin, end):
    with pytest.raises(PowerError, match="the power was not sampled from"):
        joules(samples, begin, end)


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    """Let `nvidia-smi` be a shell script, which finds its arguments as $1, $2 and so on."""

    def put(text):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return put


def test_power_is_sampled_and_integrated(pretend):
    pretend('[ "$*" = "--query-gpu=power.draw.instant --format=csv,noheader,nounits --id=0" ] && echo " 250.50"')
    with Meter() as meter:
        begin = meter.samples[0][0]
        meter._thread.join(0.1)
        end = meter.samples[-1][0]
    assert meter.field == "power.draw.instant"
    assert meter.joules(begin, end) == pytest.approx(250.5 * (end - begin))
    assert meter.samples[-1][0] > end


def test_older_drivers_know_another_field_and_other_cards_another_number(pretend, monkeypatch):
    pretend('case "$*" in *instant*) echo "Field is not a valid field to query."; exit 2;; *--id=3) echo 99;; esac')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    with Meter() as meter:
        pass
    assert meter.field == "power.draw"
    assert {watts for _, watts in meter.samples} == {99}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo '[N/A]'", r"nvidia-smi says '\[N/A\]' for power.draw of GPU 0, which is no number of watts"),
        ("echo No devices were found; exit 6", "nvidia-smi ended with status 6: No devices were found"),
    ],
)
def test_a_power_that_is_not_reported_is_an_error(pretend, text, words):
    pretend(text)
    with pytest.raises(PowerError, match=words), Meter():
        pass


def test_without_nvidia_smi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PowerError, match="nvidia-smi cannot be run: No such file"):
        read_watts("power.draw", "0")


def test_a_power_reading_that_starts_to_fail_raises(pretend, tmp_path):
    count = tmp_path / "count"
    pretend(f'echo x >> {count}; [ "$(wc -l < {count})" -lt 4 ] && echo 70 || exit 9')
    with pytest.raises(PowerError, match="status 9"), Meter() as meter:
        meter._thread.join(5)


# ---- energy of a network


class Steady:
    """A network of two populations that spikes so often a step, for a pretend GPU."""

    def __init__(self):
        populations = SimpleNamespace(name="exc", size=4), SimpleNamespace(name="inh", size=1)
        projections = (
            SimpleNamespace(source="exc", entries=40),
            SimpleNamespace(source="exc", entries=8),
            SimpleNamespace(source="inh", entries=5),
        )
        self.plan = SimpleNamespace(populations=populations, projections=projections)

    def run(self, steps, record):
        assert record == ["exc.counts", "inh.counts"]
        return {"exc.counts": np.full(4, 3), "inh.counts": np.full(1, 7)}


def test_energy_is_of_the_runs_and_power_of_the_pauses(pretend, monkeypatch):
    pretend("echo 200")
    network = SimpleNamespace(build=lambda seed, backend: Steady())
    monkeypatch.setitem(network_energy.NETWORKS, "steady", lambda n: network)
    monkeypatch.setattr(network_energy, "_SETTLES", 0.0)
    monkeypatch.setattr(network_energy, "_CHUNK", 100)
    found = network_energy.measure("steady", 0, repeats=1, seconds=0.03, idle_seconds=0.02)
    turns = found["steps"] // 100
    assert found["joules"] == pytest.approx([200 * found["seconds"][0]])
    assert found["idle_watts"] == pytest.approx([200])
    assert found["events"] == [turns * (12 * 48 / 4 + 7 * 5)]
    assert found["rates"] == pytest.approx({"exc": 3 / 10e-3, "inh": 7 / 10e-3})


@pytest.mark.parametrize("off", [1, 1.3])
def test_rows_say_with_and_without_the_power_of_an_idle_gpu(monkeypatch, off):
    answer = {
        "joules": [3000.0, 3300.0],
        "seconds": [10.0, 10.0],
        "idle_watts": [100.0, 90.0],
        "events": [1e11, 1.1e11],
    }
    answer |= {"samples": [80, 90], "field": "power.draw", "steps": 100_000}
    answer["rates"] = {layer: off * rate for layer, rate in rates_of.RIGHT["poisson", 100].of.items()}
    monkeypatch.setattr(energy, "run_probe", lambda *_, **__: json.loads(json.dumps(answer)))
    found = list(energy.measure_rows(Options()))
    if off != 1:
        assert "it is another network: L23E fires at" in found[0].why
        return
    assert [row.samples for row in found] == [
        pytest.approx((30, 30)),
        pytest.approx((20, 2400 / 110)),
        pytest.approx((300, 330)),
        (100, 90),
    ]
    assert [row.unit for row in found] == ["nJ", "nJ", "W", "W"]
    assert found[0].note == "the GPU alone, without its host; power.draw of nvidia-smi, 80 samples a run"
