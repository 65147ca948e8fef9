"""Pandas is imported when somebody uses it, by whoever imported it meanwhile (in fresh interpreters)."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import sys, threading
from aisimulate.timing.aic.pandas_import import pandas_when_used
"""
ESTIMATE = """
from aisimulate.timing.aic import engine_key, kv_tokens
key = engine_key("meta-llama/Meta-Llama-3.1-8B", "h200_sxm", "vllm", tp=1)
kv_tokens(key, max_num_tokens=8192, memory_fraction_kind="of_total", memory_fraction=0.9)
"""


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_estimate_needs_no_pandas() -> None:
    assert said(ESTIMATE + "print('pandas' in sys.modules)") == "False"


def test_the_sdk_finds_the_real_one_when_it_asks_for_it() -> None:
    ask = """
from aiconfigurator_core.sdk import inference_summary
found = inference_summary.pd.DataFrame
import pandas
print(found is pandas.DataFrame, inference_summary.pd.__version__ == pandas.__version__)
"""
    assert said(ESTIMATE + ask) == "True True"


@pytest.mark.parametrize(
    "statement", ["from pandas import DataFrame", "import pandas.core.frame", "import pandas; pandas.Series"]
)
def test_other_threads_get_the_real_one_meanwhile(statement: str) -> None:
    meanwhile = f"""
def work():
    exec({statement!r}, found)
found = {{}}
with pandas_when_used():
    import pandas as ours
    held = ours.DataFrame
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
from pandas import DataFrame
print(held is object, ours.DataFrame is DataFrame, found.get("DataFrame", DataFrame) is DataFrame)
"""
    assert said(meanwhile) == "True True True"


def test_one_that_is_there_stays() -> None:
    there = """
import pandas
with pandas_when_used():
    import pandas as again
print(again is pandas, sys.modules["pandas"] is pandas)
"""
    assert said(there) == "True True"


def test_an_import_that_fails_leaves_nothing_behind() -> None:
    failing = """
try:
    with pandas_when_used():
        raise ImportError
except ImportError:
    print("pandas" in sys.modules)
"""
    assert said(failing) == "False"
