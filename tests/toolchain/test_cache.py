# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled libraries: one build whoever asks, nothing half-written, nothing that others can change."""

import errno
import fcntl
import json
import mmap
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import brainevent
from brainevent.errors import KernelError, KernelToolchainError
from brainevent.toolchain import cache, directory

KEY = "0123456789abcdef"
OTHER_KEY = "fedcba9876543210"
CONTENT = b"\x7fELF the library" * 100


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    """Keep away from the real home and the real temporary directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "temporary").mkdir()
    for name in ("BRAINEVENT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(directory, "_given_up", {})
    cache.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    cache.set_cache_dir(None)


@pytest.fixture
def fallback(tmp_path):
    return tmp_path / "temporary" / f"brainevent-{os.geteuid()}" / brainevent.__version__


class Build:
    """A build that counts its runs and writes something else each time."""

    def __init__(self, content=CONTENT):
        self.content, self.folders = content, []

    def __call__(self, folder):
        self.folders.append(folder)
        library = folder / "made.so"
        library.write_bytes(self.content + bytes([len(self.folders)]))
        return library

    @property
    def runs(self):
        return len(self.folders)


def left_over(base):
    return sorted(path.name for path in base.glob(".build-*"))


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def refuse(monkeypatch, function, below, number):
    """Make a function of `os` fail for paths below a directory: permission bits would not stop root."""
    real = getattr(os, function)

    def fails(*paths, **keywords):
        if any(str(path).startswith(f"{below}") for path in paths[:2]):
            raise OSError(number, os.strerror(number), str(paths[0]))
        return real(*paths, **keywords)

    monkeypatch.setattr(os, function, fails)


# --- where ---


def test_the_directory_that_was_chosen_last_wins(tmp_path, monkeypatch):
    version = brainevent.__version__
    assert cache.get_cache_dir() == str(tmp_path / "cache")
    cache.set_cache_dir(None)
    assert cache.get_cache_dir() == str(tmp_path / "home" / ".cache" / "brainevent" / version)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.get_cache_dir() == str(tmp_path / "home" / ".cache" / "brainevent" / version)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.get_cache_dir() == str(tmp_path / "xdg" / "brainevent" / version)
    monkeypatch.setenv("BRAINEVENT_CACHE_DIR", "~/mine")
    assert cache.get_cache_dir() == str(tmp_path / "home" / "mine")
    cache.set_cache_dir("~/chosen")
    assert cache.get_cache_dir() == str(tmp_path / "home" / "chosen")
    assert list((tmp_path / "home").iterdir()) == []


def test_a_relative_choice_stays_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache.set_cache_dir("here")
    monkeypatch.chdir("/")
    assert cache.get_cache_dir() == str(tmp_path / "here")


@pytest.mark.parametrize("home", [None, "", ".", "/dev/null", "/no/such/home"])
def test_without_a_home_the_temporary_directory_is_used(home, monkeypatch, fallback):
    cache.set_cache_dir(None)
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    assert cache.get_cache_dir() == str(fallback)
    assert not fallback.exists()
    assert cache.get_or_build("m", KEY, Build()) == fallback / f"m_{KEY}" / "m.so"
    assert mode(fallback) == mode(fallback.parent) == 0o700


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_an_invalid_path_is_refused(path):
    with pytest.raises(KernelError, match=r"set_cache_dir: .* is not a path; pass the path of a directory"):
        cache.set_cache_dir(path)


# --- one process ---


def test_a_library_is_built_once(base):
    build = Build()
    first, second = (cache.get_or_build("my.mod-1", KEY, build) for _ in range(2))
    assert first == second == base / f"my.mod-1_{KEY}" / "my.mod-1.so"
    assert first.read_bytes() == CONTENT + b"\x01"
    assert build.runs == 1
    assert re.fullmatch(rf"\.build-{os.getpid()}-[0-9a-f]{{8}}", build.folders[0].name)
    assert build.folders[0].parent == base
    assert left_over(base) == []


def test_another_key_is_another_library():
    build = Build()
    paths = {cache.get_or_build("m", key, build) for key in (KEY, OTHER_KEY)}
    assert {path.read_bytes()[-1] for path in paths} == {1, 2}


def test_force_builds_again():
    build = Build()
    cache.get_or_build("m", KEY, build)
    assert cache.get_or_build("m", KEY, build, force=True).read_bytes()[-1] == 2
    assert cache.get_or_build("m", KEY, build).read_bytes()[-1] == 2


def test_a_mapped_library_is_never_written_to():
    build = Build()
    with open(cache.get_or_build("m", KEY, build), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        path = cache.get_or_build("m", KEY, build, force=True)
        assert mapped[:] == CONTENT + b"\x01"
        assert path.read_bytes() == CONTENT + b"\x02"
        assert os.fstat(file.fileno()).st_ino != path.stat().st_ino
        mapped.close()


def test_a_library_that_is_linked_to_elsewhere_is_copied(tmp_path):
    elsewhere = tmp_path / "linked.so"
    elsewhere.write_bytes(CONTENT)

    def build(folder):
        os.link(elsewhere, folder / "made.so")
        return folder / "made.so"

    path = cache.get_or_build("m", KEY, build)
    elsewhere.write_bytes(b"changed")
    assert path.read_bytes() == CONTENT


def test_a_chosen_build_directory_is_kept(tmp_path, base):
    build, chosen = Build(), tmp_path / "deep" / "build"
    path = cache.get_or_build("m", KEY, build, directory=chosen)
    assert build.folders == [chosen]
    assert path.read_bytes() == (chosen / "made.so").read_bytes()
    assert base in path.parents
    assert left_over(base) == []


def test_a_chosen_build_directory_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(KernelToolchainError, match=r"get_or_build: cannot build in .*/file .*; pass another"):
        cache.get_or_build("m", KEY, Build(), directory=tmp_path / "file")


@pytest.mark.parametrize("error", [ValueError("no"), OSError(errno.EIO, "broken"), KeyboardInterrupt()])
def test_an_exception_of_the_build_passes_through(error, base):
    def build(folder):
        (folder / "half").touch()
        raise error

    with pytest.raises(type(error)) as caught:
        cache.get_or_build("m", KEY, build)
    assert caught.value is error
    assert [path.name for path in base.iterdir()] == [".locks"]
    assert cache.get_or_build("m", KEY, Build()).is_file()


def test_a_build_that_makes_nothing_is_named(base):
    with pytest.raises(KernelToolchainError, match=r"m: build returned .*/none\.so, which is not a file; return"):
        cache.get_or_build("m", KEY, lambda folder: folder / "none.so")
    assert left_over(base) == []


def truncate(path):
    os.truncate(path, 10)


def empty(path):
    os.truncate(path, 0)


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


def flip_a_bit_and_set_the_time_back(path):
    before = path.stat()
    flip_a_bit(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_a_link(path):
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def replace_by_a_directory(path):
    path.unlink()
    path.mkdir()


def let_others_write(path):
    path.chmod(0o666)


def manifest_of(path):
    return path.with_name("brainevent.json")


def change_manifest(**changes):
    def change(path):
        manifest_of(path).write_text(json.dumps(json.loads(manifest_of(path).read_text()) | changes))

    return change


def entry_becomes(make):
    def become(path):
        path.parent.rename(path.parent.with_name("elsewhere"))
        make(path.parent)

    return become


DAMAGE = {
    "truncated": truncate,
    "empty": empty,
    "one bit": flip_a_bit,
    "lacking": lambda path: path.unlink(),
    "link": replace_by_a_link,
    "directory": replace_by_a_directory,
    "others can write": let_others_write,
    "no manifest": lambda path: manifest_of(path).unlink(),
    "manifest is no JSON": lambda path: manifest_of(path).write_text("{"),
    "manifest is no text": lambda path: manifest_of(path).write_bytes(b"\xff\xfe{}"),
    "manifest is a list": lambda path: manifest_of(path).write_text("[]"),
    "manifest is nested": lambda path: manifest_of(path).write_text("[" * 100_000),
    "manifest is a directory": lambda path: replace_by_a_directory(manifest_of(path)),
    "other name": change_manifest(name="n"),
    "other key": change_manifest(key=OTHER_KEY),
    "other format": change_manifest(format=0),
    "entry is a file": entry_becomes(Path.touch),
    "entry is a link": entry_becomes(lambda entry: entry.symlink_to("elsewhere")),
    "entry is empty": entry_becomes(Path.mkdir),
    "a bit, at the same time": flip_a_bit_and_set_the_time_back,
}


def test_a_copied_entry_is_good(base, tmp_path):
    """What the manifest knows of the file is another one's then: the content decides."""
    build = Build()
    path = cache.get_or_build("m", KEY, build)
    shutil.copytree(path.parent, tmp_path / "copy")
    shutil.rmtree(path.parent)
    shutil.copytree(tmp_path / "copy", path.parent)
    assert cache.get_or_build("m", KEY, build) == path
    assert build.runs == 1


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_built_again(damage, base):
    build = Build()
    damage(cache.get_or_build("m", KEY, build))
    path = cache.get_or_build("m", KEY, build)
    assert path.read_bytes() == CONTENT + b"\x02"
    assert not path.is_symlink()
    assert not path.parent.is_symlink()
    assert cache.get_or_build("m", KEY, build) == path
    assert build.runs == 2
    assert left_over(base) == []


def test_what_is_whole_is_not_built_again():
    """The test above can pass: a copied cache, with other times, is as good."""
    build = Build()
    os.utime(cache.get_or_build("m", KEY, build), (0, 0))
    cache.get_or_build("m", KEY, build)
    assert build.runs == 1


# --- several at once ---


def test_threads_build_once():
    build, barrier = Build(), threading.Barrier(8)

    def ask(_):
        barrier.wait()
        return cache.get_or_build("m", KEY, lambda folder: (time.sleep(0.1), build(folder))[1])

    with ThreadPoolExecutor(8) as threads:
        paths = set(threads.map(ask, range(8)))
    assert len(paths) == 1
    assert build.runs == 1


def test_without_locks_the_last_one_wins(base, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOTSUP, "no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    inner, outer = Build(b"inner"), Build(b"outer")

    def build(folder):
        cache.get_or_build("m", KEY, inner)
        return outer(folder)

    assert cache.get_or_build("m", KEY, build).read_bytes() == b"outer\x01"
    assert (inner.runs, outer.runs) == (1, 1)
    assert left_over(base) == []


# --- private ---


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_whatever_the_umask_it_is_private(umask, tmp_path):
    cache.set_cache_dir(tmp_path / "a" / "b" / "cache")
    before = os.umask(umask)
    try:
        path = cache.get_or_build("m", KEY, lambda folder: Path(shutil.copyfile(__file__, folder / "made.so")))
        memo = cache.memo_dir()
    finally:
        os.umask(before)
    directories = [path.parent, memo, *list(path.parents)[1:4]]
    assert [mode(directory) for directory in directories] == [0o700] * 5
    assert mode(path) & 0o077 == 0
    assert mode(manifest_of(path)) & 0o077 == 0


@pytest.mark.parametrize("made", ["cache", f"cache/m_{KEY}", "cache/.locks", "cache/tools"])
@pytest.mark.parametrize("bits", [0o770, 0o777, 0o702])
def test_what_others_can_write_is_refused(made, bits, tmp_path):
    build = Build()
    cache.get_or_build("m", KEY, build)
    cache.memo_dir()
    (tmp_path / made).chmod(bits)
    asks = {"cache/.locks": lambda: cache.get_or_build("n", KEY, build), "cache/tools": cache.memo_dir}
    with pytest.raises(KernelToolchainError, match=rf"mode {bits:04o}.*run `chmod 700 .*{made}`.*set_cache_dir.*\$BR"):
        asks.get(made, lambda: cache.get_or_build("m", KEY, build))()
    assert build.runs == 1


@pytest.mark.parametrize("ask", [cache.entries, cache.clear_cache, cache.memo_dir])
def test_nothing_is_done_in_a_base_that_others_can_write(ask, base):
    path = cache.get_or_build("m", KEY, Build())
    base.chmod(0o777)
    with pytest.raises(KernelToolchainError, match="mode 0777"):
        ask()
    assert path.exists()


def as_if_owned(monkeypatch, path, owner):
    """Show another owner of one file: only root could give it away."""
    its = os.lstat(path)

    def shown(real):
        def status_of(*asked, **keywords):
            status = real(*asked, **keywords)
            if not os.path.samestat(status, its):
                return status
            return os.stat_result([owner if field == 4 else status[field] for field in range(10)])

        return status_of

    for name in ("lstat", "fstat"):
        monkeypatch.setattr(os, name, shown(getattr(os, name)))


def test_a_base_of_another_user_is_refused(base, monkeypatch):
    build, stranger = Build(), os.geteuid() + 4711
    path = cache.get_or_build("m", KEY, build)
    as_if_owned(monkeypatch, base, stranger)
    with pytest.raises(KernelToolchainError, match=rf"{base} belongs to user {stranger} .*choose another") as caught:
        cache.get_or_build("m", KEY, build)
    assert "chmod" not in str(caught.value)  # which they could not do
    as_if_owned(monkeypatch, base, os.geteuid())
    assert cache.get_or_build("m", KEY, build) == path
    as_if_owned(monkeypatch, path, stranger)
    assert cache.get_or_build("m", KEY, build).read_bytes()[-1] == 2


def test_a_base_of_root_is_trusted(base, monkeypatch):
    build = Build()
    path = cache.get_or_build("m", KEY, build)
    as_if_owned(monkeypatch, base, 0)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 4711)
    if not os.getuid():  # all that is there belongs to root: now we are someone else
        assert os.lstat(path).st_uid != os.geteuid()
    assert cache.get_or_build("m", KEY, build) == path


def test_the_temporary_directory_may_not_be_prepared_by_others(tmp_path, monkeypatch, fallback):
    build = Build()
    monkeypatch.delenv("HOME")
    cache.set_cache_dir(None)
    cache.get_or_build("m", KEY, build)
    fallback.parent.rename(tmp_path / "elsewhere")
    fallback.parent.symlink_to(tmp_path / "home")
    for force in (False, True):
        with pytest.raises(KernelToolchainError, match="is a file, not a directory"):
            cache.get_or_build("m", KEY, build, force=force)
    assert list((tmp_path / "home").iterdir()) == []
    fallback.parent.unlink()
    (tmp_path / "elsewhere").rename(fallback.parent)
    as_if_owned(monkeypatch, fallback.parent, os.geteuid() + 4711)
    with pytest.raises(KernelToolchainError, match="belongs to user"):
        cache.get_or_build("m", KEY, build)
    assert build.runs == 1


def test_a_link_to_a_base_is_followed(tmp_path, base):
    (tmp_path / "link").symlink_to(base)
    cache.set_cache_dir(tmp_path / "link")
    assert cache.get_cache_dir() == str(tmp_path / "link")
    assert cache.get_or_build("m", KEY, Build()) == base / f"m_{KEY}" / "m.so"
    base.chmod(0o777)
    with pytest.raises(KernelToolchainError, match="mode 0777"):
        cache.get_or_build("m", KEY, Build())


def test_a_base_that_is_a_file_is_named(base):
    base.touch()
    for ask in (lambda: cache.get_or_build("m", KEY, Build()), cache.entries, cache.clear_cache, cache.memo_dir):
        with pytest.raises(KernelToolchainError, match=r"/cache is a file, not a directory; remove it, or choose"):
            ask()


# --- what cannot be written ---


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_what_cannot_be_written_is_replaced_and_said_once(number, base, fallback, monkeypatch):
    build = Build()
    refuse(monkeypatch, "mkdir", base, number)
    said = rf"{base} cannot be written \({os.strerror(number)}\).*{fallback}.*set_cache_dir.*\$BRAINEVENT_CACHE_DIR"
    with pytest.warns(UserWarning, match=said):
        path = cache.get_or_build("m", KEY, build)
    assert cache.get_or_build("m", KEY, build) == path  # a second warning would be an error
    cache.get_or_build("n", KEY, build)
    cache.get_or_build("m", KEY, build, force=True)
    assert path == fallback / f"m_{KEY}" / "m.so"
    assert build.runs == 3
    assert mode(fallback) == mode(fallback.parent) == 0o700
    assert cache.memo_dir() is None
    assert [entry.path for entry in cache.entries()] == [path, fallback / f"n_{KEY}" / "n.so"]
    assert cache.clear_cache("m") == 1


def test_a_disk_that_fills_up_costs_no_second_build(base, fallback, monkeypatch):
    build = Build()
    refuse(monkeypatch, "rename", base, errno.ENOSPC)
    with pytest.warns(UserWarning, match="No space left on device"):
        path = cache.get_or_build("m", KEY, build)
    assert path == fallback / f"m_{KEY}" / "m.so"
    assert build.runs == 1
    assert [item.name for item in base.iterdir()] == [".locks"]
    assert cache.get_or_build("m", KEY, build) == path
    assert build.runs == 1


def test_nowhere_to_write_is_an_error(tmp_path, monkeypatch):
    refuse(monkeypatch, "mkdir", tmp_path, errno.EROFS)
    build = Build()
    with pytest.raises(KernelToolchainError, match=r"cannot be written \(Read-only file system\); choose another"):
        cache.get_or_build("m", KEY, build)
    assert build.runs == 0


def test_a_base_below_a_file_is_replaced(tmp_path, fallback):
    (tmp_path / "file").touch()
    cache.set_cache_dir(tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="Not a directory"):
        assert fallback in cache.get_or_build("m", KEY, Build()).parents


def test_a_filled_base_that_cannot_be_written_is_used_silently(base, monkeypatch):
    build = Build()
    path = cache.get_or_build("m", KEY, build)
    cache.memo_dir()
    for function in ("mkdir", "open", "rename", "chmod"):
        refuse(monkeypatch, function, base, errno.EROFS)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get_or_build("m", KEY, build) == path
        assert cache.memo_dir() is None
    assert [entry.path for entry in cache.entries()] == [path]
    with pytest.raises(KernelToolchainError, match="Read-only file system"):
        cache.clear_cache()
    assert build.runs == 1


# --- names ---


@pytest.mark.parametrize("name", ["m", "_m", "A.b-c_9", "m" * 100, f"m_{KEY}"])
def test_a_name_is_taken(name):
    assert cache.check_name(name, "here") == name


@pytest.mark.parametrize("name", ["", "a/b", "/a", "..", "a..b", ".a", "-a", "1a", "a\n", "a\0", "é", "m" * 101, 5])
def test_another_name_is_refused(name, base):
    with pytest.raises(KernelError, match=r"here: .* is not a valid module name; pass 1 to 100 of the characters"):
        cache.check_name(name, "here")
    with pytest.raises(KernelError, match=r"get_or_build: .* is not a valid module name"):
        cache.get_or_build(name, KEY, Build())
    with pytest.raises(KernelError, match=r"clear_cache: .* is not a valid module name"):
        cache.clear_cache(name)
    assert not base.exists()


@pytest.mark.parametrize("key", ["", "abc", KEY.upper(), f"../{KEY}", f"{KEY}\n", "0" * 129, None])
def test_a_key_that_is_no_hash_is_refused(key, base):
    with pytest.raises(KernelError, match=r"get_or_build: key is .*; pass 16 to 128 hexadecimal digits"):
        cache.get_or_build("m", key, Build())
    assert not base.exists()


@given(st.text(max_size=120) | st.from_regex(r"[A-Za-z._/\\-]{1,12}", fullmatch=True))
def test_no_name_leaves_the_directory(name):
    try:
        cache.check_name(name, "here")
    except KernelError:
        safe = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name)
        assert not safe or len(name) > 100
    else:
        path = f"/base/{name}_{KEY}/{name}.so"
        assert os.path.normpath(path) == path
        assert path.count("/") == 3
        assert len(os.fsencode(name)) <= 100


# --- listing and clearing ---


def test_entries_are_listed_by_name(base):
    assert cache.entries() == []
    for name, key in [("b", KEY), ("a", OTHER_KEY), ("a", KEY)]:
        cache.get_or_build(name, key, Build())
    damaged = cache.get_or_build("broken", KEY, Build())
    truncate(damaged)
    manifest_of(cache.get_or_build("bare", KEY, Build())).unlink()
    (base / f"empty_{KEY}").mkdir()
    (base / f"file_{KEY}").touch()
    listed = cache.entries()
    assert [(entry.name, entry.key) for entry in listed] == [("a", KEY), ("a", OTHER_KEY), ("b", KEY)]
    first = base / f"a_{KEY}" / "a.so"
    assert listed[0] == cache.Entry("a", KEY, first, len(CONTENT) + 1, first.stat().st_mtime)


def test_clearing_a_name_clears_no_other(base):
    for name, key in [("a", KEY), ("a", OTHER_KEY), (f"a_{KEY}", KEY), ("ab", KEY)]:
        cache.get_or_build(name, key, Build())
    assert cache.clear_cache("a") == 2
    assert [entry.name for entry in cache.entries()] == ["ab", f"a_{KEY}"][::-1]
    assert cache.clear_cache("a") == 0
    assert cache.clear_cache() == 2
    assert [path.name for path in base.iterdir()] == [".locks"]


def test_clearing_leaves_what_is_not_ours(base):
    cache.get_or_build("a", KEY, Build())
    (cache.memo_dir() / "fact").touch()
    theirs = {f"file_{KEY}": Path.touch, "notes": Path.mkdir, "short_0123": Path.mkdir, ".build-x": Path.mkdir}
    for name, make in theirs.items():
        make(base / name)
    (base / f"results_{KEY}").mkdir()
    (base / f"results_{KEY}" / "thesis.txt").touch()
    (base / f"link_{KEY}").symlink_to("notes")
    (base / f"broken_{KEY}").mkdir()
    assert cache.clear_cache() == 2
    left = {path.name for path in base.iterdir()}
    assert left == {*theirs, f"results_{KEY}", f"link_{KEY}", ".locks", "tools"}
    assert (base / "tools" / "fact").exists()


def dead_pid():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_what_dead_builds_left_is_removed(base):
    base.mkdir(mode=0o700)
    dead, living = dead_pid(), os.getppid()
    old, young, alive = (f".build-{pid}-0000000{i}" for i, pid in enumerate((dead, dead, living)))
    for name in (old, young, alive):
        (base / name).mkdir()
        (base / name / "half.o").touch()
    for name in (old, alive):
        os.utime(base / name, (0, 0))
    cache.get_or_build("m", KEY, Build())
    assert left_over(base) == sorted([young, alive])
    assert cache.clear_cache("m") == 1
    assert left_over(base) == sorted([young, alive])
    assert cache.clear_cache() == 0
    assert left_over(base) == [alive]


def test_a_directory_that_is_missing_is_empty(base):
    assert cache.clear_cache() == cache.clear_cache("m") == 0
    assert cache.entries() == []
    assert not base.exists()


def test_the_folder_of_memos_is_made_on_demand(base):
    assert cache.memo_dir() == base / "tools"
    assert mode(base / "tools") == mode(base) == 0o700
