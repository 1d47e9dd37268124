# SPDX-License-Identifier: Apache-2.0
"""Make `python -m brainevent` the command `brainevent`, and refuse it where nothing can be compiled."""

from ._system import why_not_compiled

__all__ = ["main"]


def main() -> int:
    """Run the command, and return its exit status."""
    if why := why_not_compiled("the command brainevent", "use the package in Python"):
        raise SystemExit(f"brainevent: error: {why}")
    from .cli import main as command  # it imports what compiles

    return command()


if __name__ == "__main__":
    raise SystemExit(main())
