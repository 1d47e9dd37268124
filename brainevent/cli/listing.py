# SPDX-License-Identifier: Apache-2.0
"""`brainevent list`: operators, their kernels, and what is tuned for this machine."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..bench import tuning_store
from ..bench.tuning_store import TunedChoice
from ..errors import KernelToolchainError
from ..languages import language
from ..operator.tuning_lookup import content_of, device_of, versions_of
from ..operator.variants import label
from .operators import add_modules, import_modules, registered, with_tags
from .parsing import Commands, Parser, add_shape, command, named
from .words import note, say, say_json, say_table

if TYPE_CHECKING:
    from ..operator.custom_kernel import XLACustomKernel

__all__ = ["add"]

_HEAD = ("operator", "platform", "backend", "variants", "tuned for")
_WRAPPED, _DROPPED = ("variants", "tuned for"), ("variants", "tuned for", "platform")
_GENERAL = {"cuda": "gpu", "rocm": "gpu"}  # choices use the name of a device at lowering
_EPILOG = """\
The default backend of a platform is marked with *. Where a backend is not named after the language of its kernel, the \
language stands in brackets. Tuned choices are shown if they were made on this kind of device with these versions; \
`brainevent tune list` shows all. A stale one is no longer used, because kernels of its operator have changed."""


def add(commands: Commands[Parser]) -> None:
    """Add the command."""
    parser = command(commands, "list", "list operators, their kernels, and what is tuned for them", _list, _EPILOG)
    add_modules(parser)
    parser.add_argument("--tags", type=named, metavar="TAG[,TAG...]", help="only operators with any of these tags")
    add_shape(parser)


def _list(arguments: argparse.Namespace) -> int:
    import_modules(arguments.modules)
    found = registered(arguments.modules)
    if arguments.tags:
        found = with_tags(found, arguments.tags)
    tuned = _tuned()
    described = [_described(operator, tuned) for operator in found.values()]
    if arguments.json:
        say_json({"operators": described})
    elif described:
        rows = list(itertools.chain.from_iterable(_rows(one) for one in described))
        say_table(arguments, _HEAD, rows, wrap=_WRAPPED, drop=_DROPPED)
    else:
        say("no operator is defined; name the module that defines yours: brainevent list --import my_package.ops")
    return 0


def _tuned() -> list[TunedChoice]:
    """Return all choices; none, with a note, if their file is rejected."""
    try:
        return tuning_store.tuned_choices()
    except KernelToolchainError as error:
        note(f"brainevent: {error}. Tuned choices are not shown")
        return []


def _described(operator: XLACustomKernel, tuned: Sequence[TunedChoice]) -> dict[str, Any]:
    """Return the description of an operator, for JSON."""
    tuned = _of_here(operator, tuned)
    definition = operator.definition
    platforms = sorted(platform for platform in {"cpu", *definition.kernels} if definition.backends(platform))
    return {
        "name": operator.name,
        "tags": sorted(definition.tags),
        "benchmark_data": definition.benchmark_data is not None,
        "platforms": {
            platform: {"default": _default(operator, platform), "backends": _backends(operator, platform, tuned)}
            for platform in platforms
        },
    }


def _default(operator: XLACustomKernel, platform: str) -> str:
    return operator.get_default(platform) or operator.definition.backends(platform)[0]


def _backends(operator: XLACustomKernel, platform: str, tuned: Sequence[TunedChoice]) -> list[dict[str, Any]]:
    table = operator.definition.candidates(platform)
    return [
        {
            "name": backend,
            "language": row.name if (row := language(table[backend].language)) else None,
            "variants": [label(variant) for variant in table[backend].variants],
            "tuned": [
                {
                    "shapes": choice.shapes,
                    "variant": choice.variant,
                    "seconds": choice.seconds,
                    "stale": choice.content != content_of(operator.definition.candidates(choice.platform))[0],
                }
                for choice in tuned
                if (_GENERAL.get(choice.platform, choice.platform), choice.backend) == (platform, backend)
            ],
        }
        for backend in operator.definition.backends(platform)
    ]


def _of_here(operator: XLACustomKernel, tuned: Sequence[TunedChoice]) -> list[TunedChoice]:
    """Return the choices for an operator that were made on this kind of device, with these versions."""
    return [
        choice
        for choice in tuned
        if choice.operator == operator.name
        and choice.device == device_of(choice.platform)
        and choice.versions == versions_of(operator.definition.candidates(choice.platform).values())
    ]


def _rows(operator: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of an operator, with tags below its name; repeated cells are empty."""
    about = [operator["name"]]
    about += [f"  {', '.join(operator['tags'])}"] if operator["tags"] else []
    about += [] if operator["benchmark_data"] else ["  no benchmark data"]
    kernels = [row for platform, table in operator["platforms"].items() for row in _kernels(platform, table)]
    for left, right in itertools.zip_longest(about, kernels):
        yield (left or "", *(right or ("", "", "", "")))


def _kernels(platform: str, table: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield platform, backend, variant and tuned shapes; repeated cells are empty."""
    above = platform
    for backend in table["backends"]:
        mark = "" if backend["language"] in (None, backend["name"]) else f" ({backend['language']})"
        mark += " *" if backend["name"] == table["default"] else ""
        tuned = [
            f"{choice['shapes']}{': ' if choice['variant'] else ''}{choice['variant']}"
            f"{' (stale: kernels changed)' if choice['stale'] else ''}"
            for choice in backend["tuned"]
        ]
        for row in itertools.zip_longest([backend["name"] + mark], backend["variants"], tuned, fillvalue=""):
            yield (above, *row)
            above = ""
