#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the event layers of brainstate 0.5.4 on this package: its own tests of them, then ours of the same layers.
#
#   $ scripts/brainstate.sh                      # sets up what it needs in build/brainstate; takes minutes
#   $ scripts/brainstate.sh -k FixedProb -x      # arguments are passed on to pytest
#   $ PYTHON=python3.12 scripts/brainstate.sh    # the interpreter that the environment is made from
set -eu
cd "$(dirname "$0")/.."
venv=build/brainstate
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
# brainstate asks for any brainevent: this one, which must be there first, is one.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . pytest
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check brainstate==0.5.4 braintools
tests=$("$venv/bin/python" - <<'END'
import pathlib
import brainevent, brainstate

ours = pathlib.Path.cwd() / "brainevent"
assert pathlib.Path(brainevent.__file__).parent == ours, f"brainevent is {brainevent.__file__}: remove build/brainstate"
layers = pathlib.Path(brainstate.__file__).parent / "nn"
print(*(layers / f"_{name}_test.py" for name in ("event_fixedprob", "event_linear", "linear")))
END
)
# From elsewhere, so that neither our configuration of pytest nor that of brainstate is read.
root=$PWD
cd "$venv"
# shellcheck disable=SC2086 # several files
JAX_PLATFORMS=cpu bin/python -m pytest -q -p no:cacheprovider -c /dev/null --rootdir . $tests "$root/scripts/brainstate_layers.py" "$@"
