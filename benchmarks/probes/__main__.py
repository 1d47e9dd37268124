# SPDX-License-Identifier: Apache-2.0
"""Run one probe: `probes NAME ARGUMENTS_AS_JSON ANSWER_FILE`."""

import importlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def main(probe: str, arguments: str, answer: str) -> None:
    """Call the probe's `measure` and write what it returns."""
    if str(ROOT) not in (str(Path(entry).resolve()) for entry in sys.path):
        # At the end: an installed package named brainevent goes before ours.
        sys.path.append(str(ROOT))
    measured = importlib.import_module(f"benchmarks.probes.{probe}").measure(**json.loads(arguments))
    Path(answer).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
