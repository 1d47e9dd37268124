# SPDX-License-Identifier: Apache-2.0
"""Run the examples of pages, docstrings and examples/, and build the site: what changed since it last went well.

They run two at a time; with `--site`, site/ is built as well. A page runs again when its text, the package, what all
pages share, or an installed package changed. One process imports what all need and forks for each, so that nothing is
imported again.
"""

import argparse
import functools
import hashlib
import importlib.metadata
import os
import runpy
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Program", "programs"]

ROOT = Path(__file__).resolve().parents[1]
STAMPS = ROOT / "build" / "stamps"
AT_A_TIME = 2
SHARED = ("brainevent/**/*", "docs/*.py", "examples/**/*.py", "conftest.py", "tests/helpers/[kq]*.py", "pyproject.toml")
SITE = ("docs/**/*.md", "docs/_static/**/*", "*.md")


@dataclass(frozen=True)
class Program:
    """What `python -m` runs, and the files, besides those that all share, of which one makes it run again."""

    words: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join(self.words)

    @functools.cached_property
    def digest(self) -> str:
        """Return what changes with everything that it depends on."""
        return hashlib.sha256((shared_digest() + digest_of(self.files) + self.name).encode()).hexdigest()

    @property
    def stamp(self) -> Path:
        return STAMPS / hashlib.sha256(self.name.encode()).hexdigest()[:16]

    def is_done(self) -> bool:
        """Say whether it went well as everything is now."""
        made = "site" not in self.words or (ROOT / "site" / "index.html").exists()
        return made and self.stamp.exists() and self.stamp.read_text() == self.digest

    def done(self) -> None:
        """Remember that it went well."""
        STAMPS.mkdir(parents=True, exist_ok=True)
        self.stamp.write_text(self.digest)


def digest_of(patterns: Iterable[str]) -> str:
    """Return the hash of the names and contents of files."""
    found = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in ROOT.glob(pattern)}):
        if path.is_file() and path.suffix != ".pyc":
            found.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@functools.cache
def shared_digest() -> str:
    """Return the hash of what every program depends on: the package, what pages share, and all versions."""
    versions = sorted(f"{found.name} {found.version}" for found in importlib.metadata.distributions())
    return hashlib.sha256("\n".join([sys.version, *versions, digest_of(SHARED)]).encode()).hexdigest()


def programs(site: bool) -> list[Program]:
    """Return all programs, the longest first."""
    found = [Program(("pytest", "-q", "--doctest-modules", "brainevent"))]
    found += [Program(("examples.networks.cuba", "--ms", "100")), Program(("examples.networks.classifier",))]
    found += [Program(("examples.networks.microcircuit", "--scale", "0.1", "--ms", "50"))]
    found += [
        Program(("examples.networks.brunel", "--n_exc", "4000", "--ms", "50")),
        Program(("examples.networks.ring",)),
    ]
    found += [Program(("examples.demo",))]
    if site:
        words = "sphinx --fail-on-warning --fresh-env --quiet -d build/docs docs site"
        found.insert(0, Program(tuple(words.split()), SITE))
    pages = [path for path in (ROOT / "README.md", *ROOT.glob("docs/*.md")) if "\n```python" in path.read_text()]
    pages.sort(key=lambda path: (-path.stat().st_size, path))
    names = [str(path.relative_to(ROOT)) for path in pages]
    return found + [Program(("pytest", "-q", name), (name,)) for name in names]


def run(waiting: Sequence[Program]) -> list[Program]:
    """Run programs, some at a time; return those that failed, whose output is shown."""
    waiting, running, failed = list(waiting), {}, []
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            program, output = waiting.pop(0), tempfile.TemporaryFile()  # noqa: SIM115
            running[_start(program, output.fileno())] = program, output
        child, status, used = os.wait3(0)
        program, output = running.pop(child)
        print(f"{'failed' if status else 'ok':7}{used.ru_utime + used.ru_stime:5.0f} CPU s  {program.name}", flush=True)
        if status:
            failed.append(program)
            program.stamp.unlink(missing_ok=True)
            output.seek(0)
            sys.stdout.buffer.write(output.read())
        else:
            program.done()
        output.close()
    return failed


def _start(program: Program, output: int) -> int:
    """Fork; in the fork, run the program as `python -m` would, and end."""
    if child := os.fork():
        return child
    os.dup2(output, 1), os.dup2(output, 2)
    status = 1
    try:
        sys.argv = list(program.words)
        runpy.run_module(program.words[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:  # noqa: BLE001 or the fork would go on as its parent does
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(status)


def load() -> None:
    """Import what most programs need, and let Numba load what it needs to compile; nothing may start JAX or threads."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    import jax.numpy as jnp
    import kept_caches
    import numba
    import quick_lowering
    import quick_measuring

    import brainevent

    quick_lowering.share_contexts()
    quick_measuring.with_little_memory()
    assert jnp
    assert brainevent.numba_kernel
    assert numba.njit(lambda x: x + 1)(1) == 2
    if kept_caches.is_safe(kept_caches.FOLDER):
        kept_caches.clean(kept_caches.FOLDER)
        kept_caches.use(kept_caches.FOLDER)


def main() -> int:
    """Run what changed; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", action="store_true", help="build the documentation into site/, too")
    parser.add_argument("--all", action="store_true", help="run also what has not changed")
    arguments = parser.parse_args()
    every = programs(arguments.site)
    waiting = [program for program in every if arguments.all or not program.is_done()]
    print(f"{len(every) - len(waiting)} of {len(every)} programs have not changed since they went well")
    if not waiting:
        return 0
    if any("site" in program.words for program in waiting):
        shutil.rmtree(ROOT / "site", ignore_errors=True)  # or pages that are gone would stay
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    load()
    return 1 if run(waiting) else 0


if __name__ == "__main__":
    sys.exit(main())
