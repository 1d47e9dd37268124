# SPDX-License-Identifier: Apache-2.0
"""Nobody else can put code in the place of what the cache has checked, whoever may rename its directories."""

import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import ROOT, run_program

import brainevent
from brainevent import doctor
from brainevent.backends.source import library
from brainevent.errors import KernelLoadError, KernelToolchainError
from brainevent.toolchain import cache, directory, trust

KEY = "0123456789abcdef"
STRANGER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away, or run as another user")


@pytest.fixture
def open_to_all():
    """Make a directory that other users reach, as they do not reach those of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="brainevent-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for name in ("_given_up", "_unsafe"):
        monkeypatch.setattr(directory, name, {})
    monkeypatch.setattr(directory, "_fresh", [])
    yield
    cache.set_cache_dir(None)


@pytest.fixture
def fallback(tmp_path):
    return tmp_path / "temporary" / f"brainevent-{os.geteuid()}" / brainevent.__version__


def writes(content):
    def build(folder):
        (folder / "made").write_bytes(content)
        return folder / "made"

    return build


def fails(folder):
    raise AssertionError("built again")


# ---- what is checked is what is used --------------------------------------------------------------------------------


@pytest.fixture
def swapped(tmp_path, monkeypatch):
    """Return a function that puts a cache of another's making in the place of ours, and back."""
    places = tmp_path / "cache", tmp_path / "evil", tmp_path / "aside"
    cache.set_cache_dir(places[1])
    cache.read("m", KEY, writes(b"evil"))
    cache.set_cache_dir(places[0])

    def swap():
        for source, target in ((0, 2), (1, 0), (2, 1)):
            places[source].rename(places[target])

    return swap


def test_what_is_read_is_what_was_checked(swapped):
    assert cache.read("m", KEY, writes(b"good")) == b"good"
    with cache.opened("m", KEY, fails) as kept:
        swapped()
        assert kept.path.read_bytes() == b"evil"
        assert kept.read() == b"good"


def test_what_was_just_built_is_what_is_used(swapped):
    with cache.opened("m", KEY, writes(b"good")) as kept:
        swapped()
        assert kept.path.read_bytes() == b"evil"
        assert kept.read() == b"good"


@pytest.mark.parametrize("step", range(4))
def test_a_swap_between_two_looks_changes_nothing(swapped, monkeypatch, step):
    """Whenever it comes, content is taken from one directory, with the manifest of that one."""
    cache.read("m", KEY, writes(b"good"))
    real, steps = os.open, iter(range(100))

    def slow(path, *arguments, **keywords):
        if path in ("cache", f"m_{KEY}", "brainevent.json", "m.so") and next(steps) == step:
            swapped()
        return real(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", slow)
    assert cache.read("m", KEY, fails) == (b"evil" if step == 0 else b"good")


@pytest.fixture
def libraries(tmp_path):
    """Compile two libraries that tell which one they are."""
    paths = []
    for number in (5, 6):
        source, library = tmp_path / f"{number}.cpp", tmp_path / f"{number}.so"
        source.write_text(f'extern "C" int number() {{ return {number}; }}')
        subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
        paths.append(library)
    return paths


def test_what_is_loaded_is_the_open_file(libraries):
    good, evil = libraries
    descriptor = os.open(good, os.O_RDONLY)
    evil.rename(good)
    try:
        assert library.load_library(str(good), descriptor).handle.number() == 5
    finally:
        os.close(descriptor)
    # The number of the descriptor comes again, for another file.
    again = os.open(good, os.O_RDONLY)
    assert again == descriptor
    try:
        assert library.load_library(str(good), again).handle.number() == 6
    finally:
        os.close(again)


def test_a_file_is_loaded_once(libraries):
    first, second = (library.load_library_file(str(libraries[0])) for _ in range(2))
    assert first is second
    address, content = first.handle.number, first.read_bytes()
    assert content == libraries[0].read_bytes()
    del first, second
    assert library.load_library_file(str(libraries[0])).handle.number is address


def test_an_error_names_the_path_not_the_descriptor(libraries):
    libraries[0].write_bytes(b"no library")
    with pytest.raises(KernelLoadError, match=rf"^cannot load the library {libraries[0]}: {libraries[0]}: "):
        library.load_library_file(str(libraries[0]))


# ---- who may change the way -----------------------------------------------------------------------------------------


def refused(base):
    """Use a cache there; return the warning that it is not, or an empty string."""
    cache.set_cache_dir(base)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            assert cache.read("m", KEY, writes(b"good")) == b"good"
            cache.memo_dir()
        entries = cache.entries()
    assert len(said) <= 1  # it is said once
    assert len(entries) == 1
    assert (base.resolve() in entries[0].path.parents) == (not said)
    return str(said[0].message) if said else ""


@pytest.mark.parametrize("above", ["open", "open/below"])
def test_a_directory_above_that_all_can_write_to_is_refused(tmp_path, fallback, above):
    (tmp_path / "open" / "below").mkdir(parents=True)
    (tmp_path / above).chmod(0o777)
    base = tmp_path / "open" / "below" / "cache"
    assert refused(base) == (
        f"cache: other users could replace {base} with code that would run as you ({tmp_path / above} has mode "
        f"0777, without the sticky bit), so compiled libraries go to {fallback}, which may not last; run `chmod go-w "
        f"{tmp_path / above}`, or choose another directory with set_cache_dir(...) or $BRAINEVENT_CACHE_DIR"
    )
    assert not base.exists()


@pytest.mark.parametrize("mode", [0o1777, 0o1770, 0o755, 0o700, 0o711])
def test_a_directory_above_is_accepted(tmp_path, mode):
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(mode)
    assert refused(tmp_path / "above" / "cache") == ""


def test_what_was_kept_before_is_not_read_where_others_can_swap_it(tmp_path, fallback):
    (tmp_path / "above").mkdir()
    cache.set_cache_dir(tmp_path / "above" / "cache")
    assert cache.read("m", KEY, writes(b"before")) == b"before"
    (tmp_path / "above").chmod(0o777)
    with pytest.warns(UserWarning, match="other users could replace"):
        assert cache.get_or_build("m", KEY, writes(b"after")) == fallback / f"m_{KEY}" / "m.so"
    assert cache.clear_cache() == 1
    assert (tmp_path / "above" / "cache" / f"m_{KEY}").exists()


NOBODY = 2**32 - 1  # in the entries of an access list that name no user: of the owner, the group, the mask and others
ACCESS = [(1, 7, NOBODY), (2, 7, 12345), (4, 0, NOBODY), (16, 7, NOBODY), (32, 5, NOBODY)]
ACCESS_LIST = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in ACCESS)


@pytest.mark.parametrize(
    ("name", "members", "primary", "accepted"),
    [
        ("me", [], True, True),  # a group of the user's own, as many systems give everyone
        ("me", ["me"], True, True),
        ("me", ["me", "root"], True, True),
        ("me", ["me", "eve"], True, False),
        ("me", [], False, False),
        ("lab", [], True, False),  # a directory service need not list whose group it is, too
        ("lab", ["me"], False, False),
        (None, [], True, False),
    ],
)
def test_a_group_that_can_write_must_have_no_other_members(tmp_path, monkeypatch, name, members, primary, accepted):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o775)
    group = os.stat(tmp_path / "shared").st_gid
    account = SimpleNamespace(pw_name="me", pw_uid=os.geteuid(), pw_gid=group if primary else group + 1)
    groups = {group: SimpleNamespace(gr_name=name, gr_mem=members)} if name else {}
    monkeypatch.setattr(trust, "grp", SimpleNamespace(getgrgid=groups.__getitem__))
    monkeypatch.setattr(trust, "pwd", SimpleNamespace(getpwuid={os.geteuid(): account}.__getitem__))
    trust._has_no_others.cache_clear()
    try:
        said = refused(tmp_path / "shared" / "cache")
    finally:
        trust._has_no_others.cache_clear()
    if accepted:
        assert said == ""
        return
    named = name or group
    assert f"shared has mode 0775, and the group {named}, which may have other members, can write to it)" in said
    assert f"run `chmod g-w {tmp_path / 'shared'}`" in said


def test_an_access_list_may_name_others(tmp_path, monkeypatch):
    (tmp_path / "listed").mkdir()
    try:
        os.setxattr(tmp_path / "listed", "system.posix_acl_access", ACCESS_LIST)
    except OSError as error:
        pytest.skip(f"no access lists here: {error}")
    assert stat.S_IMODE(os.stat(tmp_path / "listed").st_mode) == 0o775  # whom it lets in does not show
    monkeypatch.setattr(trust, "_has_no_others", lambda *_: True)
    assert "listed has mode 0775, and the group" in refused(tmp_path / "listed" / "cache")


@as_root
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_directory_above_of_another_user_is_refused(tmp_path, mode):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(mode)
    os.chown(tmp_path / "theirs", STRANGER, -1)
    said = refused(tmp_path / "theirs" / "cache")
    assert f"({tmp_path / 'theirs'} belongs to user {STRANGER})" in said
    assert "chmod" not in said  # which we could not do


def test_the_overflow_user_of_a_container_is_trusted_in_sticky_directories(tmp_path, monkeypatch):
    for name in ("above", "sticky"):
        (tmp_path / name).mkdir()
        if not os.geteuid():
            os.chown(tmp_path / name, STRANGER, -1)
    (tmp_path / "sticky").chmod(0o1777)
    monkeypatch.setattr(trust, "_unknown_user", lambda: STRANGER)
    assert refused(tmp_path / "sticky" / "cache") == ""
    if not os.geteuid():
        assert f"{tmp_path / 'above'} belongs to user {STRANGER}" in refused(tmp_path / "above" / "cache")


def test_links_on_the_way_count(tmp_path):
    for name in ("open", "sticky", "safe", "target", "also"):
        (tmp_path / name).mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "sticky").chmod(0o1777)
    for name in ("open", "sticky", "safe"):
        (tmp_path / name / "link").symlink_to("../target")
    (tmp_path / "safe" / "through").symlink_to(tmp_path / "open" / "link")
    (tmp_path / "safe" / "past").symlink_to("../open/../also")
    assert refused(tmp_path / "safe" / "link" / "a") == ""
    assert refused(tmp_path / "sticky" / "link" / "b") == ""
    for way in ("open/link/c", "safe/through/d", "safe/past/e"):
        assert f"({tmp_path / 'open'} has mode 0777" in refused(tmp_path / way)


@as_root
def test_a_link_of_another_user_is_refused(tmp_path):
    for name in ("sticky", "target"):
        (tmp_path / name).mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "sticky" / "link").symlink_to(tmp_path / "target")
    os.lchown(tmp_path / "sticky" / "link", STRANGER, -1)
    assert f"(the link {tmp_path / 'sticky' / 'link'} belongs to user {STRANGER})" in refused(
        tmp_path / "sticky" / "link" / "cache"
    )


def test_links_in_a_circle_are_an_error_not_a_wait(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        trust.check_ancestors(tmp_path / "one" / "cache")


# ---- where libraries go instead -------------------------------------------------------------------------------------


FRESH = """
    import os, sys, types, warnings
    package = sys.modules["brainevent"] = types.ModuleType("brainevent")  # the rest of it would import JAX
    package.__path__ = [sys.argv[2]]
    from brainevent.toolchain import cache
    warnings.simplefilter("ignore")
    cache.set_cache_dir(sys.argv[1])
    def build(folder):
        (folder / "made").write_text("good")
        return folder / "made"
    path = cache.get_or_build("m", "0123456789abcdef", build)
    if not os.fork():
        sys.exit()
    os.wait()
    print(path.read_text(), path.parents[1])
"""


def test_where_temporary_files_are_not_safe_either_a_new_directory_is_made(tmp_path):
    for name in ("open", "temporary"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name).chmod(0o777)
    printed = run_program(FRESH, tmp_path / "open" / "cache", ROOT / "brainevent", TMPDIR=str(tmp_path / "temporary"))
    content, base = printed.split()
    assert content == "good"
    assert Path(base).name.startswith("brainevent-")
    assert Path(base).parent in (Path("/tmp"), Path("/var/tmp"))
    assert not os.path.lexists(base)  # gone with the process that made it, and not with its child
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("taken", [Path.touch, lambda path: path.symlink_to("elsewhere"), Path.mkdir])
def test_where_the_temporary_directory_is_taken_a_new_one_is_made(tmp_path, fallback, taken):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    taken(fallback.parent)
    if fallback.parent.is_dir():
        fallback.parent.chmod(0o777)
    cache.set_cache_dir(tmp_path / "open" / "cache")
    with pytest.warns(UserWarning, match="other users could replace"):
        path = cache.get_or_build("m", KEY, writes(b"good"))
    assert path.parents[2] == fallback.parent.parent
    assert path.parents[1].name.startswith("brainevent-")
    assert path.parents[1] != fallback.parent
    assert stat.S_IMODE(path.parents[1].stat().st_mode) == 0o700
    assert cache.get_or_build("m", KEY, fails) == path


def test_nowhere_safe_is_an_error(tmp_path, monkeypatch):
    for name in ("open", "temporary"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name).chmod(0o777)
    monkeypatch.setattr(directory, "_PUBLIC", ())
    cache.set_cache_dir(tmp_path / "open" / "cache")
    with pytest.raises(
        KernelToolchainError, match=r"cache: other users could replace .*; run `chmod go-w .*, or choose"
    ):
        cache.get_or_build("m", KEY, fails)


def test_the_doctor_says_that_a_cache_is_not_used(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    cache.set_cache_dir(tmp_path / "open" / "cache")
    place, state, _ = doctor._cache()
    assert place == doctor.Line("directory", str(tmp_path / "open" / "cache"))
    assert state == doctor.Line(
        "state",
        f"not used, since other users could replace {tmp_path / 'open' / 'cache'} with code that would run as you "
        f"({tmp_path / 'open'} has mode 0777, without the sticky bit): compiled libraries go to the directory for "
        "temporary files",
    )


def test_a_build_directory_that_others_can_swap_is_refused(tmp_path, unique_name):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    source = '#include "brainevent/common.h"\n// @BE f ret\nvoid f(BE::Tensor) {}'
    words = r"load_cpp_inline\('built_.*'\): other users could replace .*/open has mode 0777, .*pass another"
    with pytest.raises(KernelToolchainError, match=words):
        brainevent.load_cpp_inline(unique_name("built"), source, build_directory=tmp_path / "open")


# ---- an attack ------------------------------------------------------------------------------------------------------


SWAPS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.setuid(int(sys.argv[1]))
os.chdir(sys.argv[2])
print("ready", flush=True)
while True:
    libc.renameat2(-100, b"cache", -100, b"evil", 2)  # exchange them, in the present directory
"""


@as_root
@pytest.mark.parametrize("ancestors", [True, False])
def test_no_code_is_loaded_from_swapped_directories(open_to_all, monkeypatch, ancestors):
    """Neither where we see that it is possible nor, by what is opened, where we do not."""
    if not ancestors:
        monkeypatch.setattr(trust, "_check_holder", lambda *_: None)
    for name in ("evil", "cache"):
        cache.set_cache_dir(open_to_all / name)
        cache.read("m", KEY, writes(name.encode()))
    for path in (open_to_all / "evil", *(open_to_all / "evil").rglob("*")):
        os.chown(path, STRANGER, -1)
    open_to_all.chmod(0o777)
    attacker = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SWAPS, str(STRANGER), open_to_all], stdout=subprocess.PIPE
    )
    try:
        assert attacker.stdout.readline() == b"ready\n"
        found, refusals = set(), 0
        for _ in range(300):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    with cache.opened("m", KEY, writes(b"cache")) as kept:
                        found.add(kept.read())
                except (KernelToolchainError, OSError):
                    refusals += 1
    finally:
        attacker.kill()
        attacker.communicate()
    assert found == {b"cache"}
    assert bool(refusals) == (not ancestors)
