# SPDX-License-Identifier: Apache-2.0
"""`documented` adds to docstrings what a family of functions shares, and nothing that a docstring says itself."""

import inspect

from brainevent._documented import documented

WORDS = {"x": "Numbers.", "size": "How many. " + "Many more words. " * 10, "rest": "Further arrays.", "unused": "None."}
ERRORS = {"TypeError": "If `x` is complex.", "ValueError": "If `size` is negative."}


def test_entries_are_in_the_order_of_the_signature():
    @documented({**WORDS, "y": "Other words."}, ERRORS, "A number.")
    def function(x, y, *rest, size=1, **how):
        """Say it.

        More.

        Args:
            **how: Keywords.
            y: Of its own,
                on two lines.

        Raises:
            KeyError: Never.
            ValueError: If `size` is zero.

        Examples:
            >>> 1
            1
        """
        return x, y, rest, size, how

    doc = inspect.getdoc(function)
    head, arguments, returns, raises, examples = (
        doc.partition("\n\n")[0],
        *(doc.partition(f"{name}:\n")[2].partition("\n\n")[0] for name in ("Args", "Returns", "Raises", "Examples")),
    )
    assert head == "Say it."
    names = [line.partition(":")[0].strip() for line in arguments.splitlines() if not line.startswith(" " * 8)]
    assert names == ["x", "y", "rest", "size", "**how"]
    assert "y: Of its own,\n        on two lines." in arguments
    assert max(map(len, arguments.splitlines())) <= 116
    assert returns == "    A number."
    assert raises.splitlines() == [
        "    KeyError: Never.", "    TypeError: If `x` is complex.", "    ValueError: If `size` is zero.",
    ]  # fmt: skip
    assert examples == "    >>> 1\n    1"


def test_a_class_is_described_by_its_constructor_and_a_method_without_self():
    @documented(WORDS)
    class Kind:
        """Hold numbers."""

        def __init__(self, x):
            self.x = x

        @documented(WORDS)
        def scaled(self, size):
            """Scale them.

            Returns:
                Others.
            """
            return self.x * size

    assert Kind.__doc__ == "Hold numbers.\n\nArgs:\n    x: Numbers."
    text = inspect.getdoc(Kind.scaled)
    assert text.startswith("Scale them.\n\nArgs:\n    size: How many.")
    assert text.endswith("\n\nReturns:\n    Others.")


def test_a_function_without_a_docstring_gets_none():
    def function(x):
        return x

    assert documented(WORDS, ERRORS)(function) is function
    assert function.__doc__ is None
