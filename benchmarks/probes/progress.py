# SPDX-License-Identifier: Apache-2.0
"""What a probe says while it runs: the program that started it shows these lines at once."""

MARK = "-- "


def tell(what: str) -> None:
    """Say what comes next; if the process dies of it, this is what it died of."""
    print(f"{MARK}{what}", flush=True)
