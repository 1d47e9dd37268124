# SPDX-License-Identifier: Apache-2.0
"""Membrane reports: what a config asks for is recorded, and written as SONATA files that other programs read."""

import json

import numpy as np
import pytest
from sonata_files import h5py, write_toy

import brainevent as be

REPORT = {"module": "membrane_report", "variable_name": "V_m", "cells": "cortex", "sections": "soma"}


def toy(folder, **reports):
    return be.read_sonata(write_toy(folder, reports={name: {**REPORT, **one} for name, one in reports.items()}))


def test_reports_of_a_config_are_recorded_and_written(tmp_path):
    model = toy(
        tmp_path,
        all={},
        some={"cells": "two", "dt": 0.5, "start_time": 10.0, "end_time": 20.0, "file_name": "potential.h5"},
        current={"variable_name": "I_syn_ex", "cells": ["two", {"ei": "i"}], "module": "multimeter_report"},
        off={"module": "extracellular", "enabled": False},
    )
    assert list(model.reports) == ["all", "some", "current"]
    sim = model.build(backend="interpreted")
    result = sim.run(ms=30.0, record=[*model.record, "cortex.v", "cortex.exc"])
    paths = model.write_reports(tmp_path / "out", result)
    assert [path.name for path in paths] == ["all.h5", "potential.h5", "current.h5"]
    one, some, current = (be.read_sonata_report(path)["cortex"] for path in paths)
    np.testing.assert_array_equal(one.values, result["cortex.v"])
    np.testing.assert_allclose(one.times, np.arange(1, 301) * 0.1)
    assert one.node_ids.tolist() == [0, 1, 2, 3, 4]
    assert (one.units, current.units) == ("mV", "pA")
    assert repr(some) == "SonataReport(2 nodes, 20 samples from 10.1 to 19.6 ms, mV)"
    # The first step ends at 0.1 ms, and samples are 0.5 ms apart: those after 10 ms and until 20 ms.
    np.testing.assert_allclose(some.times, np.arange(10.1, 20, 0.5))
    np.testing.assert_array_equal(some.values, result["cortex.v"][100:200:5, [0, 2]])
    assert some.node_ids.tolist() == [0, 2]
    np.testing.assert_array_equal(current.values, result["cortex.exc"][:, [0, 2, 4]])


def test_a_report_has_the_layout_of_sonata(tmp_path):
    cells = be.models.lif_current("exc", 4, current=300.0, v=[-60.0, -61.0, -62.0, -63.0])
    other = be.models.lif_current("inh", 2, current=300.0)
    network = be.Network([cells, other])
    record = [be.every(2, "exc.v", neurons=[3, 0], label="a"), be.every(2, "exc.v", neurons=[1], label="b")]
    result = network.build(backend="interpreted").run(7, record=[*record, be.every(2, "inh.v")])
    nodes = {"exc": ("v1", [40, 10, 20, 30]), "inh": ("v1", [0, 35])}
    be.write_sonata_report(tmp_path / "r.h5", result, ["a", "b", "inh.v"], nodes=nodes)
    with h5py.File(tmp_path / "r.h5") as file:
        assert file.attrs["magic"] == 0x0A7A
        assert file.attrs["version"].tolist() == [0, 1]
        assert list(file["report"]) == ["v1"]
        data, mapping = file["report/v1/data"], file["report/v1/mapping"]
        assert (data.shape, data.dtype, data.attrs["units"]) == ((4, 5), np.float32, "mV")
        assert mapping["node_ids"][()].tolist() == [0, 10, 30, 35, 40]
        assert mapping["node_ids"].dtype == np.uint64
        assert mapping["node_ids"].attrs["sorted"] == 1
        for name in ("index_pointer", "index_pointers"):
            assert mapping[name][()].tolist() == [0, 1, 2, 3, 4, 5]
        assert mapping["element_ids"][()].tolist() == [0] * 5
        assert mapping["time"].attrs["units"] == "ms"
        np.testing.assert_allclose(mapping["time"], [0.1, 0.9, 0.2])
        expected = [
            result["inh.v"][:, 0],
            result["b"][:, 0],
            result["a"][:, 0],
            result["inh.v"][:, 1],
            result["a"][:, 1],
        ]
        np.testing.assert_array_equal(data[()], np.stack(expected, axis=1))


def test_a_run_in_pieces_has_the_times_of_the_simulation(tmp_path):
    sim = be.Network([be.models.lif_current("exc", 2)]).build(backend="interpreted")
    sim.run(10)
    be.write_sonata_report(tmp_path / "r.h5", sim.run(10, record="exc.v"), "exc.v", start=1.5)
    np.testing.assert_allclose(be.read_sonata_report(tmp_path / "r.h5")["exc"].times, [1.6, 1.7, 1.8, 1.9, 2.0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"module": "extracellular"}, "reports v: module 'extracellular' cannot be recorded; only membrane_report"),
        ({"sections": "dend"}, "sections is 'dend'; point neurons have one potential: leave sections out"),
        ({"transform": "mean"}, "transform is 'mean'"),
        ({"variable_name": "V"}, "neurons of cortex have no variable 'V'; did you mean 'v'"),
        ({"variable_name": ["V_m", "I_syn_ex"]}, r"variable_name is \['V_m', 'I_syn_ex'\]; it must be one name"),
        ({"variable_name": None}, "variable_name is None; it must be one name, such as V_m"),
        ({"cells": "lgn"}, "cells are virtual, and have no V_m; choose point neurons"),
        ({"cells": "tow"}, r"no node set 'tow'; did you mean 'two'\?; sets: two, "),
        ({"dt": 0.25}, "dt is 0.25 ms, no multiple of the time step, 0.1 ms; pass a multiple"),
        ({"dt": 0}, "dt is 0; it must be a positive number of ms"),
        ({"start_time": -1}, "start_time is -1; it must be a number of ms, 0 or later"),
        ({"start_time": 50, "end_time": 20}, "start_time is 50 ms and end_time 20 ms; the end must be later"),
    ],
)
def test_reports_that_cannot_be_recorded_are_named(tmp_path, change, says):
    with pytest.raises(be.NetworkError, match=says):
        toy(tmp_path, v=change)


def test_two_reports_need_two_files(tmp_path):
    with pytest.raises(be.NetworkError, match=r"reports b: its file is x.h5, as that of a; give it a file_name"):
        toy(tmp_path, a={"file_name": "x.h5"}, b={"file_name": "out/x.h5"})


def test_a_report_is_an_object(tmp_path):
    with pytest.raises(be.NetworkError, match="reports v is 'V_m'; it must be an object with variable_name"):
        be.read_sonata(write_toy(tmp_path, reports={"v": "V_m"}))


@pytest.fixture(scope="module")
def recorded():
    cells, other = be.models.lif_current("exc", 3), be.models.lif_delta("inh", 2)
    record = ["exc.spikes", "exc.v", "exc.i", be.every(2, "inh.v"), be.every(1, "exc.v", neurons=[1, 2], label="part")]
    return be.Network([cells, other]).build(backend="interpreted").run(10, record=record)


@pytest.mark.parametrize(
    ("record", "options", "says"),
    [
        ("exc.spikes", {}, "exc.spikes is no state of neurons; .* there is write_sonata_spikes"),
        ("exc.w", {}, "'exc.w' was not recorded; did you mean"),
        ([], {}, "record has no label; pass one such as 'exc.v'"),
        (["exc.v", "inh.v"], {}, "exc.v and inh.v were recorded at other times; write a file for each"),
        (["exc.v", "exc.i"], {}, "exc.v is in mV and exc.i in pA; write a file for each"),
        (["exc.v", "part"], {}, "node 1 of exc is there twice"),
        ("exc.v", {"start": 1.0}, "no sample is after 1 ms and until inf ms; those of exc.v are from 0.1 to 1 ms"),
        ("exc.v", {"start": 2.0, "stop": 1.0}, "start is 2.0 and stop is 1.0; pass 0 <= start < stop"),
        ("exc.v", {"nodes": {"exc": ("v1", [0, 1])}}, "exc has 3 neurons, but nodes has 2 ids"),
        ("exc.v", {"nodes": {"inh": ("v1", [0, 1])}}, "exc is not among nodes: inh"),
        ("exc.v", {"nodes": {"exc": ("v/1", [0, 1, 2])}}, "v/1 has a /, which names of HDF5 groups cannot have"),
    ],
)
def test_what_is_no_report_is_not_written(tmp_path, recorded, record, options, says):
    with pytest.raises(be.NetworkError, match=says):
        be.write_sonata_report(tmp_path / "r.h5", recorded, record, **options)
    assert not (tmp_path / "r.h5").exists()


def test_a_report_needs_the_result_of_a_run(tmp_path, recorded):
    with pytest.raises(be.NetworkError, match=r"result is dict; pass what Simulation.run returned"):
        be.write_sonata_report(tmp_path / "r.h5", dict(recorded), "exc.v")


def test_reports_that_cannot_be_read_are_named(tmp_path, recorded):
    path = tmp_path / "r.h5"
    be.write_sonata_report(path, recorded, "exc.v")
    with h5py.File(path, "a") as file:
        del file["report/exc/mapping/index_pointer"], file["report/exc/mapping/index_pointers"]
        file["report/exc/mapping/index_pointer"] = [0, 2, 3, 3]
    with pytest.raises(be.NetworkError, match=r"data of the shape \(10, 3\) for 3 nodes; only reports with one value"):
        be.read_sonata_report(path)
    with h5py.File(path, "a") as file:
        del file["report/exc/data"]
    with pytest.raises(be.NetworkError, match="has no '/report/exc/data'; is it a SONATA report"):
        be.read_sonata_report(path)
    with h5py.File(path, "w") as file:
        file["report/data"] = np.zeros((2, 2))
    with pytest.raises(be.NetworkError, match="names no population: its data are in '/report'"):
        be.read_sonata_report(path)
    with pytest.raises(be.NetworkError, match=r"nothing.h5 does not exist"):
        be.read_sonata_report(tmp_path / "nothing.h5")


def test_an_output_folder_is_in_the_config_of_a_circuit_that_was_written(tmp_path):
    model = toy(tmp_path, v={"cells": ["two", {"ei": "i"}]})
    content = json.loads(be.write_sonata(model, tmp_path / "again").read_text())
    assert content["reports"]["v"]["variable_name"] == "V_m"
    assert content["reports"]["v"]["end_time"] == 100.0
