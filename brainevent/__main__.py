# SPDX-License-Identifier: Apache-2.0
"""Run the command `brainevent` as `python -m brainevent`, unless kernels cannot be compiled on this system."""

from ._system import why_not_compiled

__all__ = ["main"]


def main() -> int:
    """Run the command, and return its exit status."""
    if why := why_not_compiled("the command brainevent", "use the package in Python"):
        raise SystemExit(f"brainevent: error: {why}")
    from .cli import main as command  # imports the modules that compile

    return command()


if __name__ == "__main__":
    raise SystemExit(main())
