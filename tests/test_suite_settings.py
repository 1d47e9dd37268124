# SPDX-License-Identifier: Apache-2.0
"""What the suite sets so that it runs anywhere: processes share GPU memory, and optional packages may be missing."""

import os
import re

import pytest
from forked import run_forked
from programs import ROOT, program_environment
from quantities import Missing

MEMORY = "XLA_PYTHON_CLIENT_PREALLOCATE"


def test_no_file_needs_brainunit_to_be_imported():
    """Units are optional: where brainunit is missing, tests that need it are skipped, and all others run."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "quantities.py"]
    assert len(files) > 100
    found = [path.name for path in files if re.search(r"^(import|from) brainunit\b", path.read_text(), re.MULTILINE)]
    assert found == [], 'write `from quantities import u`, or `u = pytest.importorskip("brainunit")`'


def test_a_test_that_uses_a_missing_package_is_skipped():
    missing = Missing("brainunit")
    assert not hasattr(missing, "__name__")
    with pytest.raises(pytest.skip.Exception, match="needs brainunit, which is not installed"):
        _ = 3 * missing.mV


@pytest.mark.parametrize(("given", "found"), [("", "false"), ("true", "true"), ("false", "false")])
def test_processes_share_a_gpu_unless_the_user_chose_otherwise(given, found):
    program = """
        import os, runpy, sys

        name, given, conftest = sys.argv[1:]
        del os.environ[name]
        if given:
            os.environ[name] = given
        runpy.run_path(conftest)
        print(os.environ[name])
    """
    assert run_forked(program, MEMORY, given, ROOT / "conftest.py").strip() == found
    assert program_environment()[MEMORY] == os.environ[MEMORY]  # of programs that tests start
