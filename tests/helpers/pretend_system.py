# SPDX-License-Identifier: Apache-2.0
"""Take from Python what Linux alone has, and let it say that it runs elsewhere: before brainevent is imported."""

import ctypes
import mmap
import os
import platform
import sys

import jax.numpy as jnp
import numba

BEFORE = jnp, numba  # they have releases for other systems, and these are for this one
ONLY_LINUX = ("O_PATH", "memfd_create", "sched_getaffinity")
ONLY_POSIX = ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "geteuid", "getuid", "register_at_fork")


class WithoutFileLocks:
    """Finds no module that Windows has not."""

    def find_spec(self, name, *_):
        if name in ("fcntl", "resource"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def pretend(system):
    """Be "Windows" or "Darwin" from now on; what is taken away does not come back."""
    platform.system = lambda: system
    for name in ONLY_LINUX + (ONLY_POSIX if system == "Windows" else ()):
        if hasattr(os, name):
            delattr(os, name)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        del mmap.MADV_HUGEPAGE
    if system == "Windows":
        for name in ("fcntl", "resource"):
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, WithoutFileLocks())
        for name in ("MAP_ANONYMOUS", "MAP_PRIVATE", "PROT_READ", "PROT_WRITE"):
            delattr(mmap, name)
        load = ctypes.CDLL.__init__

        def load_named(self, name, *args, **kwargs):
            if name is None:
                raise TypeError("there is no library without a name")
            load(self, name, *args, **kwargs)

        ctypes.CDLL.__init__ = load_named
