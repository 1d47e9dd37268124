# SPDX-License-Identifier: Apache-2.0
"""A program in a fork is as one in a process of its own."""

import os

import pytest
from forked import run_forked
from programs import HELPERS

ARRAYS = """
    import sys

    import jax

    before = list(sys.argv)
    print(before, __name__, jax.numpy.arange(int(sys.argv[1])).sum(), len(jax.devices()))
"""


def test_arguments_results_and_devices_are_its_own():
    devices = "--xla_force_host_platform_device_count={}"
    assert run_forked(ARRAYS, 3, XLA_FLAGS=devices.format(2)) == "['-c', '3'] __main__ 3 2\n"
    assert run_forked(ARRAYS, 5, XLA_FLAGS=devices.format(3)) == "['-c', '5'] __main__ 10 3\n"


def test_forks_leave_the_parent_unchanged():
    change = "import os, jax; os.environ['CHANGED'] = jax.changed = '1'; print(os.getpid())"
    look = "import os, jax; print(os.environ.get('CHANGED'), hasattr(jax, 'changed'), os.getcwd())"
    assert int(run_forked(change)) != os.getpid()
    assert run_forked(look) == f"None False {HELPERS}\n"
    assert run_forked("import os; print(os.environ['GIVEN'])", GIVEN="value") == "value\n"


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("print('so far'); raise ValueError('wrong')", r"exit status 1\nso far\n[\s\S]*ValueError: wrong"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 9)", "exit status -9"),
    ],
)
def test_a_failing_fork_raises_with_its_output(source, said):
    with pytest.raises(AssertionError, match=said):
        run_forked(source)
    assert run_forked("print(1)") == "1\n"
