"""Numpy without idle threads: neither a replay nor a search multiplies matrices that threads would help."""

from __future__ import annotations

import os
import sys

_VARIABLE = "OPENBLAS_NUM_THREADS"


def use_one_blas_thread() -> None:
    """Let numpy start without a pool of BLAS threads, unless it is loaded already or the user chose a number.

    The threads of a fresh pool spin while they wait for work: tens of ms of CPU in every worker process.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault(_VARIABLE, "1")
