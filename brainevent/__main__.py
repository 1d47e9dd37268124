# SPDX-License-Identifier: Apache-2.0
"""Make `python -m brainevent` the command `brainevent`."""

from .cli import main

raise SystemExit(main())
