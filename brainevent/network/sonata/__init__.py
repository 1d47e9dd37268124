# SPDX-License-Identifier: Apache-2.0
"""Networks of point neurons from and to files of SONATA, and what they do. h5py is imported when a file is opened."""

from .circuit import write_sonata
from .network import SonataNetwork
from .reading import read_sonata
from .report_file import SonataReport, read_sonata_report, write_sonata_report
from .writing import write_sonata_spikes

__all__ = [
    "SonataNetwork",
    "SonataReport",
    "read_sonata",
    "read_sonata_report",
    "write_sonata",
    "write_sonata_report",
    "write_sonata_spikes",
]
