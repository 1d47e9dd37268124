#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run the tests of packages that import brainevent, those that touch it, on this package and on PyPI's of the same name.
#
#   $ scripts/clients.sh                         # sets up what it needs in build/clients; takes an hour
#   $ scripts/clients.sh FOLDER                  # sets it up in FOLDER
#   $ PYPI=0.2.1 scripts/clients.sh FOLDER       # compares with another release
#   $ PYTHON=/usr/bin/python3.12 scripts/clients.sh FOLDER
#   $ CLIENTS="brainstate brainspike" scripts/clients.sh FOLDER
#   $ FUSED=1 scripts/clients.sh FOLDER          # also with loops as native calls: BRAINEVENT_FUSE_LOOPS=1
#   $ FUSED=all scripts/clients.sh FOLDER        # the same, also of loops that are short, or faster without
#   $ LIMIT=3600 scripts/clients.sh FOLDER       # ends a test file after an hour, and not after half an hour
#
# The clients and their versions are in clients.txt; the newest need Python 3.12. clients_tests.py says which of their test
# files touch the package:
# each runs in a process of its own, on the CPU. clients_loops.py counts native loops. clients_table.py makes the table, and exits with 1 where a test passes on
# PyPI's alone, or only without native loops.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/build/clients}
pypi=${PYPI:-0.3.0}
clients=${CLIENTS:-brainstate braintrace braincell braintools brainspike brainpy} # the names by which they are imported
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
results=$folder/results

# An environment that has what it should is used again.
prepare() { # its name, what it should have, the commands that install that
  venv=$folder/$1
  [ "$(cat "$venv/installed" 2> /dev/null)" != "$2" ] || return 0
  rm -rf "$venv"
  echo "Installing into $venv ..." >&2
  "${PYTHON:-python3.12}" -m venv "$venv"
  "$3"
  printf '%s\n' "$2" > "$venv/installed"
}
pip() {
  "$venv/bin/python" -m pip "$@" --quiet --disable-pip-version-check
}
install_ours() { # first: it is the brainevent that the clients ask for
  pip install --constraint "$root/scripts/clients.txt" --editable "$root"
  pip install --requirement "$root/scripts/clients.txt"
}
install_pypis() {
  rm -rf "$results"
  pip install --requirement "$root/scripts/clients.txt"
  pip install --no-deps "brainevent==$pypi"
}
install_sources() { # of braintrace: its wheel is without its tests
  pip download --no-deps --no-binary :all: --dest "$venv" "$(grep '^braintrace==' "$root/scripts/clients.txt")"
  tar -xzf "$venv"/braintrace-*.tar.gz -C "$venv" --strip-components 1
}
pins=$(cksum < "$root/scripts/clients.txt")
prepare ours "$pins $(cksum < "$root/pyproject.toml")" install_ours
prepare pypi "$pins $pypi" install_pypis
prepare sources "$(grep '^braintrace==' "$root/scripts/clients.txt")" install_sources

cd "$folder" # where no configuration of pytest is, and no package
export JAX_PLATFORMS=cpu MPLBACKEND=agg PYTHONDONTWRITEBYTECODE=1
check() { # of one test file, what it does in one environment, and the name of its results if it is another
  python=$folder/$1/bin/python
  result=$results/${2:-$1}/$client/$file
  case $client in
    braintrace) home=$folder/sources/braintrace ;;
    *) home=$(echo "$folder/$1"/lib/python*/site-packages)/$client ;;
  esac
  echo "${2:-$1}: $client/$file" >&2
  mkdir -p "$(dirname "$result")"
  counts=
  [ "${2:-}" != fused ] || counts="-p clients_loops"
  # shellcheck disable=SC2086 # of no words, or two
  LOOPS=$result.loops PYTHONPATH=${counts:+$root/scripts} timeout --foreground "${LIMIT:-1800}" nice "$python" -m pytest -q -p no:cacheprovider $counts -c /dev/null --rootdir "$home" -o junit_family=xunit1 \
    --junitxml "$result.xml" "$home/$file" > "$result.log" 2>&1 < /dev/null || echo "  $(tail -n 1 "$result.log")" >&2
}
rm -rf "$results/ours" "$results/fused"
mkdir -p "$results"
for client in $clients; do
  home=$(echo "$folder"/pypi/lib/python*/site-packages)/$client
  [ "$client" != braintrace ] || home=$folder/sources/braintrace
  "$folder/ours/bin/python" "$root/scripts/clients_tests.py" "$home" > "$results/files"
  while read -r file; do
    # What pinned packages do is kept.
    [ -f "$results/pypi/$client/$file.xml" ] || check pypi
    BRAINEVENT_FUSE_LOOPS=0 check ours
    [ -z "${FUSED:-}" ] || BRAINEVENT_FUSE_LOOPS=1 check ours fused
  done < "$results/files"
done

echo "Tests of packages that import brainevent, on the CPU: scripts/clients.sh"
for which in pypi ours; do
  "$folder/$which/bin/python" - "$which" "$root" <<'END'
import importlib.metadata, pathlib, platform, subprocess, sys
import brainevent

which, root = sys.argv[1:]
version = importlib.metadata.version
at = pathlib.Path(brainevent.__file__).parents[1] == pathlib.Path(root)
assert at == (which == "ours"), f"brainevent of {which} is {brainevent.__file__}"
commit = subprocess.check_output(["git", "-C", root, "describe", "--always", "--dirty"], text=True).strip()
print(f"  {which}: brainevent {version('brainevent')}" + f" at {commit}" * at)
if at:
    names = ("jax", "numba", "numpy", "brainstate", "brainpy", "braintools", "braintrace", "braincell")
    print(f"  both: Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names))
END
done
echo
"$folder/ours/bin/python" "$root/scripts/clients_table.py" "$results"
