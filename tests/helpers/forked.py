# SPDX-License-Identifier: Apache-2.0
"""Run programs in processes of their own that need not import anything again.

One process imports JAX, Numba and the package, and forks for each program, before JAX starts its threads. So a program
starts in a hundredth of a second, not in three. For what a program imports, or reads from the environment while it
imports, `programs.run_program` starts Python anew.
"""

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
from pathlib import Path

from programs import HELPERS, program_environment

__all__ = ["run_forked"]

Request = dict[str, object]


def run_forked(source: str, *arguments: object, timeout: float = 120, **environment: str) -> str:
    """Return what Python source prints, run in a fork; fail with all that it said if it fails, hangs or is killed."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch(), err.touch()
        request = {
            "source": textwrap.dedent(source),
            "arguments": [*map(str, arguments)],
            "environment": program_environment(**environment),
            "out": str(out),
            "err": str(err),
        }
        status = _ask(_server(), request, timeout)
        assert status == 0, f"exit status {status}\n{out.read_text()}\n{err.read_text()}"
        return out.read_text()


@functools.cache
def _server() -> subprocess.Popen[bytes]:
    """Start the process that forks; it ends with this one, as its input does."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=program_environment(),
        cwd=HELPERS,
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    server.stdin.close()
    server.wait()
    server.stdout.close()


def _ask(server: subprocess.Popen[bytes], request: Request, timeout: float) -> int:
    """Return the exit status of what was asked for; end it, and raise, if it takes too long."""
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    child = _number(server)
    if not select.select([server.stdout], [], [], timeout)[0]:
        os.kill(child, signal.SIGKILL)
        _number(server)
        raise subprocess.TimeoutExpired(request["source"], timeout)
    return _number(server)


def _number(server: subprocess.Popen[bytes]) -> int:
    line = bytearray()
    while not line.endswith(b"\n"):
        got = os.read(server.stdout.fileno(), 1)  # no buffer, or `select` would not see what is in it
        assert got, "the process that forks has ended"
        line += got
    return int(line)


# ---- in the process that forks ----


def serve() -> Request:
    """Fork for each request and tell its number and its status; return, in the fork, what it is to run."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    for line in requests:
        child = os.fork()
        if not child:
            requests.close(), answers.close()
            return json.loads(line)
        answers.write(b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        answers.write(b"%d\n" % os.waitstatus_to_exitcode(status))
    sys.exit()


def run(request: Request) -> None:
    """Run a program as Python would."""
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY),
        (2, request["err"], os.O_WRONLY),
    ):
        file = os.open(name, flags | os.O_APPEND if number else flags)
        os.dup2(file, number), os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(request["source"], "<string>", "exec"), main.__dict__)


def load() -> None:
    """Import what programs import, and let Numba load what it needs to compile."""
    import jax.numpy as jnp
    import numba
    import quick_lowering

    import brainevent

    quick_lowering.share_contexts()
    assert jnp
    assert brainevent.numba_kernel
    assert numba.njit(lambda x: x + 1)(1) == 2


if __name__ == "__main__":
    load()
    run(serve())
