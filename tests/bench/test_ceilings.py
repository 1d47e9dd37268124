# SPDX-License-Identifier: Apache-2.0
"""What a device reaches is measured once, kept in records, and lasts in files; files without it are read as well."""

import json

import jax
import pytest

from brainevent import BenchmarkRecord, BenchmarkResult
from brainevent.bench import measure as measuring
from brainevent.bench.measure import Measurement

NEW = {"bytes": 12.0, "flops": 6.0, "peak_bandwidth": 2e10, "peak_flops": 1e11}
RECORD = BenchmarkRecord("cpu", "a", "n=1", 0.2, 0.1, 0.1, None, True, None, {}, {"bytes": 3}, **NEW)


def test_operations_are_counted_once_of_a_product_in_full_precision(monkeypatch):
    timed = []

    def fake(function, operands, **counts):
        timed.append((function, operands))
        return Measurement((0.5, 0.25, 1.0), None)

    monkeypatch.setattr(measuring, "measure", fake)
    measuring.measured_flops.cache_clear()
    device = jax.devices()[0]
    assert measuring.measured_flops(device) == 2 * 2048**3 / 0.25
    assert measuring.measured_flops(device) == 2 * 2048**3 / 0.25
    measuring.measured_flops.cache_clear()
    ((function, operands),) = timed
    assert [(x.shape, str(x.dtype)) for x in operands] == [((2048, 2048), "float32")] * 2
    assert "[HIGHEST, HIGHEST]" in function.lower(*operands).as_text()


@pytest.mark.thorough
def test_measured_flops_are_plausible():
    measuring.measured_flops.cache_clear()
    assert 1e8 < measuring.measured_flops(jax.devices()[0]) < 1e16


@pytest.mark.parametrize("name", ["a.json", "a.csv"])
def test_work_and_ceilings_last(name, tmp_path):
    BenchmarkResult([RECORD]).save(tmp_path / name, format=name[2:])
    found = BenchmarkResult.load(tmp_path / name).records[0]
    assert {key: getattr(found, key) for key in NEW} == NEW


def test_files_from_before_are_read(tmp_path):
    data = BenchmarkResult([RECORD]).to_dict()
    for key in NEW:
        del data["records"][0][key]
    (tmp_path / "a.json").write_text(json.dumps(data))
    assert BenchmarkResult.load(tmp_path / "a.json").records[0].flops is None
    (tmp_path / "a.csv").write_text("platform,backend,label,mean_ms,std_ms,min_ms\ncpu,a,n=1,0.2,0.1,0.1\n")
    assert BenchmarkResult.load(tmp_path / "a.csv").records[0].bytes is None


def test_a_keyword_may_have_the_name_of_a_field():
    assert "data_kwargs.bytes" in str(BenchmarkResult([RECORD]))
