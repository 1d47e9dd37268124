# SPDX-License-Identifier: Apache-2.0
"""What tests compile is kept, in one piece, and not for ever."""

import os
import time

import kept_caches
import pytest
from forked import run_forked


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "programs").mkdir()
    for name in ("kernels/k_00", "kernels/tuning", "kernels/.locks", "kernels/tools"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(bytes(100))
    return tmp_path


def aged(path, days):
    path.write_bytes(bytes(100))
    os.utime(path, (time.time() - days * kept_caches.DAY,) * 2)


def names(folder):
    return sorted(path.name for part in ("kernels", "programs") for path in (folder / part).iterdir())


def test_old_entries_are_removed_once_a_day(folder):
    aged(folder / "programs" / "old-cache", 8), aged(folder / "programs" / "new-cache", 6)
    kept_caches.clean(folder)
    assert names(folder) == [".locks", "k_00", "new-cache", "tools"]  # and what an earlier run chose is forgotten
    aged(folder / "programs" / "old-cache", 8), aged(folder / "kernels" / "k_00" / "file", 9)
    kept_caches.clean(folder)
    assert "old-cache" in names(folder)
    aged(folder / "cleaned", 2)
    kept_caches.clean(folder)
    assert names(folder) == [".locks", "new-cache", "tools"]
    aged(folder / "cleaned", 2), aged(folder / "programs" / "newer-cache", 1)
    kept_caches.clean(folder, limit=150)  # what was used last stays
    assert names(folder) == [".locks", "newer-cache", "tools"]


def test_a_folder_that_others_can_replace_is_not_used(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert kept_caches.is_safe(inner / "kept")
    inner.parent.chmod(0o777)
    assert not kept_caches.is_safe(inner / "kept")
    inner.parent.chmod(0o1777)
    assert kept_caches.is_safe(inner / "kept")


KEEPS = """
    import sys
    from pathlib import Path

    import jax
    import jax.numpy as jnp
    import kept_caches

    kept_caches.use(Path(sys.argv[1]))
    kept_caches.use(Path(sys.argv[1]))  # twice is once
    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rpartition("/")[2]))
    mesh = jax.make_mesh((2,), ("d",))
    for spec in (None, jax.P("d")):
        x = jnp.arange(4.0) if spec is None else jax.device_put(jnp.arange(4.0), jax.NamedSharding(mesh, spec))
        events.clear()
        jax.jit(lambda x: jnp.sin(x) + 1)(x).block_until_ready()
        print(events.count("cache_hits"), events.count("cache_misses"))
"""


@pytest.mark.thorough
def test_programs_for_several_devices_are_not_kept(tmp_path):
    flags = "--xla_force_host_platform_device_count=2"
    runs = [run_forked(KEEPS, tmp_path, XLA_FLAGS=flags).splitlines() for _ in range(2)]
    assert [run[0] for run in runs] == ["0 1", "1 0"]
    assert [run[1] for run in runs] == ["0 0", "0 0"]  # a miss is counted where something is kept
