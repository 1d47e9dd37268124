# SPDX-License-Identifier: Apache-2.0
"""Environment variables that pages name are those that the package reads."""

import re

from programs import ROOT

VARIABLE = re.compile(r"\bBRAINEVENT_[A-Z_]*[A-Z]")


def named(folder, *patterns):
    paths = [path for pattern in patterns for path in (ROOT / folder).glob(pattern)]
    return {name for path in paths for name in VARIABLE.findall(path.read_text())}


def test_pages_name_variables_that_are_read():
    read = named("brainevent", "**/*.py", "**/*.h")
    assert {"BRAINEVENT_CACHE_DIR", "BRAINEVENT_COMPUTE_CAPABILITIES"} <= read
    assert named(".", "README.md", "CONTRIBUTING.md", "docs/**/*.md") - read == set()
