"""Settings of all tests."""

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

# Searches record themselves; those of the tests do it in a folder of their own, also in child processes.
_RUNS = tempfile.mkdtemp(prefix="aisimulate-test-runs-")
atexit.register(shutil.rmtree, _RUNS, ignore_errors=True)
os.environ["AISIMULATE_RUNS"] = _RUNS

# The same examples in every run, so that a red check can be repeated; AISIMULATE_FUZZ asks for fresh ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("fuzz", deadline=None)
settings.load_profile("fuzz" if os.environ.get("AISIMULATE_FUZZ") else "repeatable")
