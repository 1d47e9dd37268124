# SPDX-License-Identifier: Apache-2.0
"""Tuning: the fastest right kernel is found, remembered, followed by what is jitted, and never guessed."""

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked
from programs import program_environment
from tuned_ops import OUT, X, chosen, doubling, fast, read, reference, slow, wrong

import brainevent
from brainevent import XLACustomKernel, _jit_key, config, set_backend, use_backend
from brainevent.bench import tuning_store
from brainevent.cli import main
from brainevent.errors import (
    KernelError,
    KernelFallbackExhaustedError,
    KernelToolchainError,
    RegistrationTypeError,
    RegistrationValueError,
)
from brainevent.operator import tuning, tuning_lookup
from brainevent.toolchain import directory

SECONDS = 0.002


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Remember in a folder of the test's own."""
    monkeypatch.setattr(directory, "_chosen", [])
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "tuning"
    config.autotune("off")
    tuning_store._of_this_process.clear()
    tuning_store._warned.clear()


@pytest.fixture
def operator(unique_name):
    return doubling(unique_name("tuned"))


def as_after_a_restart():
    tuning_store._read_before.clear()
    tuning_store._warned.clear()
    tuning_store.find("anything")  # reads the file
    _jit_key.refresh()


def tune(operator, x=X, **kwargs):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return operator.tune(x, outs=out, seconds=SECONDS, **kwargs)


# ---- choosing ------------------------------------------------------------------------------------------------------


def test_the_fastest_right_kernel_wins(operator):
    assert chosen(operator) == "slow 5000"
    found = tune(operator)
    assert (found.backend, found.variant, found.remembered) == ("fast", "", True)
    assert [trial.backend for trial in found.trials] == ["fast", "reference", "slow", "wrong"]
    assert found.trials[-1].error.startswith("wrong results: output 0: element [1] is 3.0, expected 4.0")
    assert all(trial.low <= trial.seconds <= trial.high for trial in found.trials[:-1])
    assert chosen(operator) == "fast"
    np.testing.assert_array_equal(operator(X, outs=OUT), 2 * X)


def test_progress_is_shown_on_a_terminal(operator, monkeypatch):
    shown = []
    monkeypatch.setattr("brainevent.bench.tune.shown", lambda items, what: shown.append((len(items), what)) or items)
    tune(operator)
    assert shown == [(4, operator.name)]


def test_a_result_prints_as_a_table(operator):
    lines = str(tune(operator)).splitlines()
    assert lines[0].startswith(f"operator {operator.name!r} on cpu (")
    assert lines[0].endswith("): float32[64] -> float32[64]")
    assert lines[2].split() == ["backend", "variant", "median", "spread"]
    assert [line.split()[0] for line in lines[3:]] == ["fast", "reference", "slow", "wrong"]
    assert "failed" in lines[-1]
    assert "turns=5000" in lines[-2]


def test_the_first_kernel_is_the_truth_where_there_is_no_reference(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel("slow", "cpu", slow, variants={"turns": (5_000,)})
    operator.def_kernel("wrong", "cpu", wrong)
    assert tune(operator).backend == "slow"


def test_the_truth_is_the_default_kernel_where_there_is_no_reference(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel("wrong", "cpu", wrong)
    operator.def_kernel("fast", "cpu", fast, asdefault=True)
    found = tune(operator)
    assert (found.backend, found.trials[1].backend) == ("fast", "wrong")
    assert found.trials[1].error.startswith("wrong results")


def nothing_but_nan(*, outs):
    return lambda x: x * jnp.nan


def missing(*, outs):
    raise RuntimeError("it needs a device that is not here")


def test_kernels_that_fail_or_return_nan_lose(operator):
    operator.def_kernel("nan", "cpu", nothing_but_nan)
    operator.def_kernel("missing", "cpu", missing)
    found = tune(operator)
    errors = {trial.backend: trial.error for trial in found.trials if trial.error}
    assert found.backend == "fast"
    assert "element [0] is nan" in errors["nan"]
    assert "it needs a device that is not here" in errors["missing"]


def test_no_kernel_that_is_right(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel("missing", "cpu", missing)
    with pytest.raises(KernelFallbackExhaustedError, match=r"no kernel on cpu gives right results:\n  missing : "):
        tune(operator)
    with pytest.raises(KernelFallbackExhaustedError, match="it has no kernel at all"):
        tune(XLACustomKernel(unique_name("tuned")))
    assert brainevent.tuned_choices() == []


def test_a_choice_is_for_shapes_dtypes_and_keywords(operator):
    tune(operator)
    assert chosen(operator) == "fast"
    assert chosen(operator, jnp.ones(65)) == "slow 5000"
    assert chosen(operator, X.astype(jnp.float16)) == "slow 5000"
    assert chosen(operator, turns=7, backend="slow") == "slow 7"
    batch = jax.jit(jax.vmap(lambda x: operator(x, outs=OUT)))
    assert read(batch, jnp.stack([X, X])) == "slow 5000"


def test_equal_keywords_of_other_types_are_other_calls(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel("first", "cpu", lambda *, outs, k: lambda x: reference(x) * k)
    operator.def_kernel("second", "cpu", lambda *, outs, k: lambda x: x * (2 * k))
    tune(operator, k=1)
    assert (chosen(operator, k=1), chosen(operator, k=True), chosen(operator, k=1.0)) == (
        "fast", "reference", "reference",
    )  # fmt: skip


def test_results_with_a_structure(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel("slow", "cpu", lambda *, outs: lambda x: {"y": reference(x)})
    operator.def_kernel("fast", "cpu", lambda *, outs: lambda x: {"y": x + x})
    assert operator.tune(X, outs={"y": OUT}, seconds=SECONDS).backend == "fast"
    assert read(jax.jit(lambda x: operator(x, outs={"y": OUT}))) == "fast"


def test_outs_may_be_left_out_and_operands_may_be_numpy(operator):
    assert operator.tune(np.asarray(X), seconds=SECONDS).shapes == "float32[64] -> float32[64]"
    assert chosen(operator) == "fast"


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"backend": "fast"}, TypeError, "it tries all backends; leave backend= out"),
        ({"seconds": 0}, ValueError, "seconds is 0; pass a positive number"),
        ({"seconds": float("inf")}, ValueError, "seconds is inf; pass a positive number, the time for each kernel"),
        ({"seconds": float("nan")}, ValueError, "seconds is nan; pass a positive number, the time for each kernel"),
        ({"seconds": True}, ValueError, "seconds is True; pass a positive number"),
        ({"platform": "cpus"}, ValueError, "did you mean 'cpu'"),
        ({"platform": "tpu"}, ValueError, "JAX has no device of platform 'tpu' here"),
    ],
)
def test_what_cannot_be_tuned(operator, keywords, error, words):
    with pytest.raises(error, match=words):
        operator.tune(X, **keywords)


def test_operands_on_several_devices_are_refused(operator):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    x = jax.device_put(X, jax.NamedSharding(mesh, jax.sharding.PartitionSpec("i")))
    with pytest.raises(ValueError, match="the operands lie on several devices; put them on one"):
        operator.tune(x)
    assert operator.tune(x, platform="cpu", seconds=SECONDS).backend == "fast"


# ---- precedence ----------------------------------------------------------------------------------------------------


def test_the_order_of_choices(operator):
    """Call > block > global > tuned > default."""
    tune(operator)
    jitted = jax.jit(lambda x: operator(x, outs=OUT))
    assert read(jitted) == "fast"
    set_backend("cpu", "reference")
    assert read(jitted) == "reference"
    with use_backend("cpu", "wrong"):
        assert read(jitted) == "wrong"
        assert chosen(operator, backend="slow") == "slow 5000"
    set_backend("cpu", None)
    assert read(jitted) == "fast"
    brainevent.clear_tuned()
    assert read(jitted) == "slow 5000"


def test_functions_that_are_jitted_follow(operator):
    traces = []

    @jax.jit
    def jitted(x):
        traces.append(operator.name)
        return operator(x, outs=OUT)

    jitted(X)
    jitted(X)
    assert len(traces) == 1
    tune(operator)
    jitted(X)
    jitted(X)
    assert len(traces) == 2
    brainevent.clear_tuned(operator.name)
    jitted(X)
    assert len(traces) == 2  # what was compiled before is found again


def test_what_is_tuned_is_no_part_of_the_program(operator):
    """Dispatch costs nothing at run time: the program is that of the kernel chosen by name."""
    by_name = jax.jit(lambda x: operator(x, outs=OUT, backend="fast")).lower(X).as_text()
    tune(operator)
    assert jax.jit(lambda x: operator(x, outs=OUT)).lower(X).as_text() == by_name


def test_check_tries_every_kernel_of_a_tuned_operator(operator):
    tune(operator)
    report = brainevent.check(operator, X, backends=["slow", "fast", "wrong"], promises=["jit"])
    values = {row.backend: row.status for row in report.rows if row.promise == "values"}
    assert values == {"slow": "ok", "fast": "ok", "wrong": "failed"}


# ---- variants ------------------------------------------------------------------------------------------------------


def test_variants_reach_the_generator_and_the_fastest_is_used(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel("slow", "cpu", slow, variants={"turns": (5_000, 7)})
    assert chosen(operator) == "slow 5000"
    found = tune(operator)
    assert (found.backend, found.variant) == ("slow", "turns=7")
    assert [trial.variant for trial in found.trials] == ["turns=7", "turns=5000"]
    assert chosen(operator) == "slow 7"
    assert chosen(operator, backend="slow") == "slow 7"
    assert chosen(operator, turns=5) == "slow 5"


def test_the_best_variant_of_a_backend_that_is_asked_for(unique_name):
    operator = doubling(unique_name("tuned"), variants=(5_000, 7))
    assert tune(operator).backend == "fast"
    assert chosen(operator, backend="slow") == "slow 7"
    with use_backend("cpu", "slow"):
        assert chosen(operator) == "slow 7"


def test_a_keyword_of_the_call_leaves_the_other_keywords_of_a_variant(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_kernel(
        "k",
        "cpu",
        lambda *, outs, block, turns: slow(outs=outs, turns=turns),
        variants={"block": (1, 2), "turns": (7,)},
    )
    assert [trial.variant for trial in tune(operator, turns=5).trials[:2]] != []
    assert {trial.variant for trial in tune(operator, turns=5).trials} == {"block=1", "block=2"}
    assert chosen(operator, turns=5) == "slow 5"


def test_variants_are_kept_in_the_entry(unique_name):
    operator = XLACustomKernel(unique_name("tuned"))
    both = {"a": (1, 2), "b": ("x", "y")}
    operator.def_kernel("product", "cpu", fast, variants=both)
    operator.def_numba_kernel(fast, variants=[{"a": 1}, {"a": 2, "b": "y"}])
    operator.def_cuda_raw_kernel(fast, platform="cpu", variants={"f": (jnp.sin, jnp.cos)})
    kernels = operator.definition.kernels["cpu"]
    assert [dict(variant) for variant in kernels["product"].variants] == [
        {"a": a, "b": b} for a in (1, 2) for b in ("x", "y")
    ]
    assert kernels["numba"].variants == ((("a", 1),), (("a", 2), ("b", "y")))
    assert len(kernels["cuda_raw"].variants) == 2


@pytest.mark.parametrize(
    ("variants", "error", "words"),
    [
        ({"block": 64}, RegistrationTypeError, r"variants\['block'\] is 64; pass a tuple of values"),
        ({"block": "64"}, RegistrationTypeError, "pass a tuple of values"),
        (64, RegistrationTypeError, "variants is 64; pass a dictionary such as"),
        ([64], RegistrationTypeError, "or a list of dictionaries"),
        ({}, RegistrationValueError, "names no variant; leave it out"),
        ({"block": ()}, RegistrationValueError, "names no variant"),
        ({"outs": (1,)}, RegistrationValueError, "'outs' in variants is reserved"),
        ({"backend": (1,)}, RegistrationValueError, "'backend' in variants is reserved"),
        ({"_block": (1,)}, RegistrationValueError, "reserved; choose another"),
        ({"a b": (1,)}, RegistrationTypeError, "'a b' in variants is not a valid name of a keyword"),
        ({"block": ([1],)}, RegistrationTypeError, r"block=\[1\] in variants must be hashable"),
        ({"block": (1, 1)}, RegistrationValueError, "the variant 'block=1' is declared twice"),
    ],
)
def test_what_cannot_be_a_variant(operator, variants, error, words):
    with pytest.raises(error, match=rf"operator '{operator.name}', backend 'k': .*{words}"):
        operator.def_kernel("k", "cpu", fast, variants=variants)


# ---- remembering ---------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from tuned_ops import chosen, doubling
print(chosen(doubling(sys.argv[1])))
"""
TUNES = """
import sys
from tuned_ops import X, doubling
for i in range(4):
    doubling(f"{sys.argv[1]}_{i}").tune(X[: 16 + i], seconds=0.001)
"""


@pytest.mark.thorough
def test_another_process_remembers(operator):
    assert run_forked(PROGRAM, operator.name) == "slow 5000\n"
    tune(operator)
    assert run_forked(PROGRAM, operator.name) == "fast\n"


@pytest.mark.thorough
def test_processes_that_tune_at_once_lose_nothing(unique_name, folder):
    names = [unique_name("parallel") for _ in range(4)]
    command = [sys.executable, "-c", TUNES]
    started = [subprocess.Popen([*command, name], env=program_environment()) for name in names]
    assert [process.wait(120) for process in started] == [0] * 4
    found = {choice.operator: choice.backend for choice in brainevent.tuned_choices()}
    assert found == {f"{name}_{i}": "fast" for name in names for i in range(4)}
    assert sorted(os.listdir(folder)) == [".lock", "choices.json"]


def test_threads_that_remember_at_once_lose_nothing(operator):
    def remember(i):
        for k in range(5):
            tuning_store.remember(tuning_store.TunedChoice("op", "cpu", "d", f"{i} {k}", "v", "c", "", "b", (), 1.0))

    threads = [threading.Thread(target=remember, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    as_after_a_restart()
    assert len(brainevent.tuned_choices("op")) == 30


def changed(*, outs):
    return lambda x: x + x + 0


def test_another_content_makes_a_choice_stale(operator):
    tune(operator)
    operator.def_kernel("fast", "cpu", changed)
    assert chosen(operator) == "slow 5000"
    operator.def_kernel("fast", "cpu", fast)
    assert chosen(operator) == "fast"
    operator.def_kernel("one more", "cpu", changed)
    assert chosen(operator) == "slow 5000"


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(("name", "value"), [("versions_of", "jax 9.9"), ("device_of", "another processor")])
def test_another_version_or_device_makes_a_choice_stale(operator, monkeypatch, name, value):
    tune(operator)
    monkeypatch.setattr(tuning_lookup, name, lambda _: value)
    assert chosen(operator) == "slow 5000"
    monkeypatch.setattr(tuning_lookup, name, lambda _: None if name == "device_of" else "")
    assert chosen(operator) == "slow 5000"


def test_the_version_of_the_language_s_compiler_counts(operator, monkeypatch):
    operator.def_kernel("quick", "cpu", fast, language="nvrtc")
    monkeypatch.setattr(tuning_lookup, "_version", {"jax": "1", "nvidia-cuda-nvrtc": "13.5", "numba": "2"}.get)
    assert tuning_lookup.versions_of(operator.definition.kernels["cpu"].values()) == "jax 1, nvidia-cuda-nvrtc 13.5"


class Opaque:
    """It has no content."""

    def __call__(self, *, outs):
        return fast(outs=outs)


def test_what_has_no_content_is_chosen_in_this_process_only(operator, folder):
    operator.def_kernel("fast", "cpu", Opaque())
    with pytest.warns(UserWarning, match="the choice is valid in this process only; use functions"):
        found = tune(operator)
    assert (found.backend, found.remembered) == ("fast", False)
    assert chosen(operator) == "fast"
    assert not folder.exists()


@pytest.mark.covering(strength=0, times=2)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04",
        b"[]",
        b'{"format": 2, "tuned": [{"operator": "x"}]}',
        b'{"format": true, "tuned": []}',
        b'{"format": 2}',
        b"[" * 100_000,
    ],
)
def test_broken_and_foreign_files_are_ignored_with_one_warning(operator, folder, content):
    folder.mkdir(parents=True)
    (folder / "choices.json").write_bytes(content)
    with pytest.warns(UserWarning, match=r"is damaged, or of another program .*; the next choice replaces it") as said:
        as_after_a_restart()
    assert len(said) == 1
    assert (chosen(operator), chosen(operator, jnp.ones(7))) == ("slow 5000", "slow 5000")  # and no other warning
    tune(operator)
    as_after_a_restart()
    assert chosen(operator) == "fast"


def test_a_file_of_an_older_format_is_stale(operator, folder):
    tune(operator)
    (folder / "choices.json").write_text('{"format": 1, "tuned": [{"operator": "x"}]}')
    as_after_a_restart()  # and no warning
    assert chosen(operator) == "slow 5000"
    tune(operator)
    assert json.loads((folder / "choices.json").read_text())["format"] == 2


def test_a_file_of_a_newer_format_is_kept(operator, folder, tmp_path):
    tune(operator)
    newer = '{"format": 3, "better": []}'
    (folder / "choices.json").write_text(newer)
    words = "is of format 3, which a newer brainevent wrote; update brainevent, or choose another directory with"
    with pytest.warns(UserWarning, match=f"{words}.* Tuned choices are ignored"):
        as_after_a_restart()
    assert chosen(operator) == "slow 5000"
    for refused in (brainevent.tuned_choices, brainevent.clear_tuned, lambda: brainevent.export_tuned(tmp_path / "a")):
        with pytest.raises(KernelToolchainError, match=words):
            refused()
    with pytest.warns(UserWarning, match=f"{words}.* Choices are valid in this process only"):
        assert tune(operator).remembered is False
    assert chosen(operator) == "fast"
    assert (folder / "choices.json").read_text() == newer
    (tmp_path / "newer.json").write_text(newer)
    with pytest.raises(KernelError, match=r"is not a file of tuned choices \(it is of format 3"):
        brainevent.import_tuned(tmp_path / "newer.json")


def test_a_warning_about_the_file_names_the_line_of_the_user(operator, folder):
    """The file is read deep within JAX, when the first kernel is chosen."""
    tune(operator)
    (folder / "choices.json").write_bytes(b"")
    tuning_store._read_before.clear()
    with pytest.warns(UserWarning, match="is damaged") as said:
        jax.jit(lambda x: operator(x, outs=OUT) + 1)(X)
    assert [one.filename for one in said] == [__file__]
    tuning_store._read_before.clear()
    tuning_store._warned.clear()
    with pytest.warns(UserWarning, match="is damaged") as said:
        brainevent.tuned_choices()
    assert [one.filename for one in said] == [__file__]


def test_an_error_names_the_user_who_owns_the_folder(operator, folder, monkeypatch):
    tune(operator)
    monkeypatch.setattr(tuning_store, "is_ours", lambda status: False)
    monkeypatch.setattr(tuning_store.os, "geteuid", lambda: 12345)
    with pytest.raises(KernelToolchainError, match=r"\(user 12345\); choose another directory with set_cache_dir"):
        tuning_store._guard(folder, os.lstat(folder))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("change", [{"seconds": "1"}, {"backend": 3}, {"variants": "x"}, {"variants": [[1, 2]]}])
def test_entries_of_wrong_types_make_a_file_broken(operator, folder, change):
    tune(operator)
    content = json.loads((folder / "choices.json").read_text())
    content["tuned"][0].update(change)
    (folder / "choices.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="is damaged"):
        as_after_a_restart()
    assert chosen(operator) == "slow 5000"


def test_a_truncated_file_and_a_backend_that_is_gone(operator, folder):
    tune(operator)
    file = folder / "choices.json"
    file.write_text(file.read_text().replace('"backend": "fast"', '"backend": "gone"'))
    as_after_a_restart()
    assert chosen(operator) == "slow 5000"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.warns(UserWarning, match="is damaged"):
        as_after_a_restart()
    assert chosen(operator) == "slow 5000"


@pytest.mark.parametrize("place", ["choices.json", ""])
def test_what_others_can_write_to_is_refused(operator, folder, place):
    tune(operator)
    os.chmod(folder / place, 0o777)
    words = "so other users could choose the kernels that you run .*run `chmod go-w .*or choose another directory"
    with pytest.warns(UserWarning, match=f"{words}.* Tuned choices are ignored"):
        as_after_a_restart()
    assert chosen(operator) == "slow 5000"
    for refused in (lambda: tune(operator), brainevent.tuned_choices, brainevent.clear_tuned):
        with pytest.raises(KernelToolchainError, match=words):
            refused()
    os.chmod(folder / place, 0o700)
    as_after_a_restart()
    assert chosen(operator) == "fast"


def test_links_are_refused(operator, folder, tmp_path):
    tune(operator)
    os.rename(folder / "choices.json", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder / "choices.json")
    with pytest.raises(KernelToolchainError, match="is not a file, or is a link; remove it"):
        brainevent.tuned_choices()


def test_a_folder_that_cannot_be_written(operator, tmp_path, monkeypatch):
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", "/proc/brainevent")
    with pytest.warns(UserWarning, match="cannot be written .*so choices are valid in this process only"):
        assert tune(operator).remembered is False
    assert chosen(operator) == "fast"


def test_choices_can_be_listed_cleared_and_shared(operator, unique_name, tmp_path):
    other = doubling(unique_name("tuned"))
    tune(operator), tune(other)
    assert [choice.operator for choice in brainevent.tuned_choices()] == sorted([operator.name, other.name])
    assert [choice.backend for choice in brainevent.tuned_choices(other.name)] == ["fast"]
    assert brainevent.export_tuned(tmp_path / "shared.json") == 2
    assert brainevent.clear_tuned(operator.name) == 1
    assert (chosen(operator), chosen(other)) == ("slow 5000", "fast")
    assert brainevent.clear_tuned() == 1
    assert brainevent.clear_tuned() == 0
    assert brainevent.import_tuned(tmp_path / "shared.json") == 2
    assert (chosen(operator), chosen(other)) == ("fast", "fast")


def test_what_cannot_be_imported_or_exported(tmp_path):
    with pytest.raises(KernelError, match="cannot be read"):
        brainevent.import_tuned(tmp_path / "none")
    (tmp_path / "broken").write_text("{}")
    with pytest.raises(KernelError, match=r"is not a file of tuned choices .*; pass one that export_tuned wrote"):
        brainevent.import_tuned(tmp_path / "broken")
    with pytest.raises(KernelError, match="cannot be written"):
        brainevent.export_tuned(tmp_path / "none" / "file")


@pytest.mark.thorough
def test_the_command_line(operator, tmp_path, capsys):
    file = str(tmp_path / "shared.json")
    assert main(["tune", "list"]) == 0
    assert capsys.readouterr().out.startswith("nothing is tuned in ")
    tune(operator)
    assert main(["tune", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == [operator.name, "cpu"]
    assert "float32[64] -> float32[64]  fast" in lines[1]
    assert lines[2] == f"1 choice in {tuning_store.file_path()}"
    assert lines[0].split()[-1] == "time"  # all is of this machine
    [choice] = brainevent.tuned_choices()
    tuning_store.remember(dataclasses.replace(choice, device="H900", versions=f"{choice.versions}, jax 0.1, gone 3"))
    assert main(["tune", "list", "--wide"]) == 0
    [head, *rows] = capsys.readouterr().out.splitlines()[:3]
    assert head.endswith("made with")
    here = importlib.metadata.version("jax")
    assert [row[head.index("made with") :] for row in rows if "H900" in row] == [
        f"H900, jax 0.1 (here {here}), gone 3 (not here)"
    ]
    brainevent.clear_tuned()
    tune(operator)
    for command in (["export", file], ["clear", operator.name], ["import", file], ["list", operator.name], ["clear"]):
        assert main(["tune", *command]) == 0
    said = capsys.readouterr().out
    assert f"wrote 1 choice to {file}\ncleared 1 choice\nadded 1 choice from {file}\n" in said
    tune(operator)
    assert main(["tune", "clear", operator.name + "x"]) == 1
    assert f"did you mean {operator.name!r}?" in capsys.readouterr().err
    assert main(["tune", "import", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err


# ---- by itself -----------------------------------------------------------------------------------------------------


def test_nothing_is_tuned_unless_asked_for(operator):
    assert config.get_autotune() == "off"
    operator(X, outs=OUT)
    assert brainevent.tuned_choices() == []
    with pytest.raises(ValueError, match="mode is 'yes'; pass 'on' or 'off'"):
        config.autotune("yes")


def test_autotune_tunes_new_shapes_once(operator, monkeypatch):
    monkeypatch.setattr("brainevent.operator.tuning.SECONDS", SECONDS)
    config.autotune("on")
    assert config.get_autotune() == "on"
    np.testing.assert_array_equal(operator(X, outs=OUT), 2 * X)
    file = tuning_store.file_path().stat()
    operator(X, outs=OUT)
    assert tuning_store.file_path().stat().st_mtime_ns == file.st_mtime_ns
    assert [choice.shapes for choice in brainevent.tuned_choices()] == ["float32[64] -> float32[64]"]
    operator(X[:9], outs=jax.ShapeDtypeStruct((9,), jnp.float32))
    assert len(brainevent.tuned_choices()) == 2


def test_autotune_never_tunes_what_is_traced_or_chosen(operator):
    config.autotune("on")
    jax.jit(lambda x: operator(x, outs=OUT))(X)
    jax.jit(lambda: operator(np.asarray(X), outs=OUT))()  # no operand is traced, yet the call is
    jax.vmap(lambda x: operator(x, outs=OUT))(jnp.stack([X]))
    jax.grad(lambda x: operator(x, outs=OUT, backend="fast").sum())(X)
    operator(X, outs=OUT, backend="fast")
    with use_backend("cpu", "fast"):
        operator(X, outs=OUT)
    set_backend("cpu", "fast")
    operator(X, outs=OUT)
    assert brainevent.tuned_choices() == []


def test_autotune_leaves_operators_with_one_kernel_and_failures_alone(operator, unique_name):
    config.autotune("on")
    single = XLACustomKernel(unique_name("tuned"))
    single.def_kernel("fast", "cpu", fast)
    np.testing.assert_array_equal(single(X, outs=OUT), 2 * X)
    single.def_kernel("fast", "cpu", missing)
    single.def_kernel("other", "cpu", missing)
    with pytest.raises(KernelError, match="it needs a device that is not here"):
        single(X, outs=OUT)
    assert brainevent.tuned_choices() == []


def test_a_reference_that_fails_is_named_and_stops_no_call(operator):
    operator.def_reference(lambda x: x[0, 0])
    with pytest.raises(IndexError) as caught:
        operator.tune(X, outs=OUT, seconds=SECONDS)
    assert caught.value.__notes__[-1] == f"operator {operator.name!r}: tune: this is what its reference raises"
    operator.set_default("cpu", "fast")
    config.autotune("on")
    with pytest.warns(UserWarning, match=f"operator '{operator.name}': autotune fails, so the call is not tuned: Too"):
        np.testing.assert_array_equal(operator(X, outs=OUT), 2 * X)
    np.testing.assert_array_equal(operator(X, outs=OUT), 2 * X)  # and no other warning


def test_autotune_does_not_wait_for_a_thread_that_measures(operator):
    """It may be a callback within what that thread measures, which would wait for ever."""
    config.autotune("on")
    held, done = threading.Event(), threading.Event()

    def measure():
        with tuning._measuring:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=measure)
    thread.start()
    assert held.wait(60)
    np.testing.assert_array_equal(operator(X, outs=OUT), 2 * X)
    assert brainevent.tuned_choices() == []
    done.set()
    thread.join()


def test_tune_within_a_trace_is_refused(operator):
    with pytest.raises(TypeError, match="an operand is a traced value; call tune outside of jit, vmap and grad"):
        jax.jit(lambda x: operator.tune(x).seconds)(X)
    with pytest.raises(TypeError, match="it is called while a function is traced; call tune outside of jit, vmap and"):
        jax.jit(lambda: operator.tune(np.asarray(X)))()


def test_choices_are_read_without_warnings(operator):
    tune(operator)
    as_after_a_restart()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(operator) == "fast"
