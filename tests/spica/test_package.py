"""The package's public names, and an import that touches nothing (spec 05 section 0)."""

import subprocess
import sys

from aisimulate import spica

_PROBE = """
import logging, os, sys, warnings
before = (dict(os.environ), list(warnings.filters), logging.root.level, logging.root.handlers[:])
import aisimulate.spica
after = (dict(os.environ), list(warnings.filters), logging.root.level, logging.root.handlers[:])
assert before == after, "import changed the process"
heavy = {"jax", "numpy", "pandas", "aiconfigurator_core", "pydantic", "yaml", "vizier", "orjson"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
assert [name for name in sys.modules if name.startswith("aisimulate.spica.")] == []
aisimulate.spica.SCALING_POLICIES
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
aisimulate.spica.SmartSearchConfig
assert "pydantic" in sys.modules
heavy -= {"pydantic", "yaml", "orjson"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
assert before[:3] == (dict(os.environ), list(warnings.filters), logging.root.level)
"""


def test_import_has_no_side_effects():
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_resolves():
    assert [name for name in spica.__all__ if getattr(spica, name).__class__ is None] == []
    assert set(spica._HOMES) == set(spica.__all__)
    assert dir(spica) == sorted(spica.__all__)


def test_unknown_names_are_attribute_errors():
    assert not hasattr(spica, "run_smart_serach")
