# SPDX-License-Identifier: Apache-2.0
"""Find which users can change a file, and open directories that others cannot replace."""

from __future__ import annotations

import errno
import functools
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..errors import KernelToolchainError

__all__ = ["UntrustedError", "check_ancestors", "is_ours", "opened_directory"]

_LOOK = os.O_PATH | os.O_NOFOLLOW  # files in a directory can be opened without permission to list it
_MOST_LINKS = 40  # the kernel's constant
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(KernelToolchainError):
    """Other users can replace a path: `reason` says how, `remedy` is the command against it, if any."""

    def __init__(self, reason: str, remedy: str = ""):
        self.reason, self.remedy = reason, remedy
        super().__init__(reason)


def is_ours(status: os.stat_result) -> bool:
    """Return whether only this user and root can change a file."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & _OTHERS


@contextmanager
def opened_directory(path: Path) -> Iterator[int]:
    """Open a directory step by step from the root, links included; raise where others could swap a step of the way.

    The opened directory is the checked one. The caller checks who can change the directory itself.
    """
    descriptor = _descend(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_ancestors(path: Path) -> None:
    """Raise `UntrustedError` if others could replace the existing part of a path."""
    with suppress(FileNotFoundError), opened_directory(path):
        pass


def _descend(path: Path) -> int:
    with ExitStack() as opened:

        def look_up(step: str, directory: int | None = None) -> int:
            descriptor = os.open(step, _LOOK, dir_fd=directory)
            opened.callback(os.close, descriptor)
            return descriptor

        here, current = "/", look_up("/")
        steps, links = os.fspath(path).split("/")[::-1], 0
        while steps:
            step = steps.pop()
            if step in ("", "."):
                continue
            _check_holder(here, os.fstat(current))
            found = look_up(step, current)
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                here, current = os.path.dirname(here) if step == ".." else os.path.join(here, step), found
                continue
            if (links := links + 1) > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
            _check_link(os.path.join(here, step), os.fstat(found), os.fstat(current))
            target = os.readlink("", dir_fd=found)
            steps += target.split("/")[::-1]
            if target.startswith("/"):
                here, current = "/", look_up("/")
        return os.dup(current)


def _check_holder(path: str, status: os.stat_result) -> None:
    """Raise if others can rename or replace files in a directory; other files contain nothing."""
    if not stat.S_ISDIR(status.st_mode):
        return
    mode, quoted = f"mode {stat.S_IMODE(status.st_mode):04o}", shlex.quote(path)
    ours = status.st_uid == os.geteuid()
    sticky = bool(status.st_mode & stat.S_ISVTX)  # all may add files, only owners replace them
    unknown = status.st_uid == _unknown_user() and (path == "/" or sticky)
    if not (_is_trusted(status.st_uid) or unknown):
        raise UntrustedError(f"{path} belongs to user {status.st_uid}")
    if sticky:
        return
    if status.st_mode & stat.S_IWOTH:
        raise UntrustedError(f"{path} has {mode}, without the sticky bit", f"chmod go-w {quoted}" if ours else "")
    if status.st_mode & stat.S_IWGRP and not _is_alone_in(path, status.st_gid):
        who = f"the group {_group_name(status.st_gid)}, which may have other members, can write to it"
        raise UntrustedError(f"{path} has {mode}, and {who}", f"chmod g-w {quoted}" if ours else "")


def _check_link(path: str, link: os.stat_result, holder: os.stat_result) -> None:
    """Raise if a link was made by another user in a directory in which all users can make links."""
    if holder.st_mode & _OTHERS and not _is_trusted(link.st_uid):
        raise UntrustedError(f"the link {path} belongs to user {link.st_uid}")


def _is_trusted(user: int) -> bool:
    return user in (os.geteuid(), 0)


@functools.cache
def _unknown_user() -> int | None:
    """Return the apparent owner of root's files in a container without root; None if root exists."""
    try:
        unknown = int(Path("/proc/sys/kernel/overflowuid").read_text())
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    except (OSError, ValueError):
        return None
    return None if any(first <= unknown < first + count for first, count in ranges) else unknown


def _is_alone_in(path: str, group: int) -> bool:
    """Return whether a directory's group has only this user and root, and no access list names others."""
    return _has_no_others(group, os.geteuid()) and not _has_access_list(path)


@functools.cache
def _has_no_others(group: int, user: int) -> bool:
    """Return whether a group is a user's own, which many systems make with each user: others may be in no other.

    A directory service need not list the members of a group, so a group without known members proves nothing.
    """
    try:
        us, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    return us.pw_gid == group and us.pw_name == found.gr_name and {*found.gr_mem} <= {us.pw_name, "root"}


def _has_access_list(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
