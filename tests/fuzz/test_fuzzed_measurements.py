"""Broken results, logs, tables, calibrations and records: read, or one line that names the file."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aisimulate.cli.main import main
from aisimulate.config.calibration_file import read_calibration
from aisimulate.core.errors import AISimulateError, InputError
from aisimulate.fidelity.calibrate.request_log import read_log
from aisimulate.fidelity.measured.formats import FORMATS, read_run
from aisimulate.fidelity.table.rows import read_table
from aisimulate.spica.ledger import Ledger
from aisimulate.spica.recorded_run import read_run as read_ledger
from tests.fidelity import made_results
from tests.fuzz.test_fuzzed_configs import changed, one_printable_line
from tests.fuzz.test_fuzzed_traces import revalued, torn
from tests.page.made_run import made_run

pytestmark = pytest.mark.filterwarnings("error")  # a user would see them among the lines of stderr
FUZZED = settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)
RESULTS = {
    "vllm": made_results.vllm(),
    "sglang": made_results.sglang(),
    "aiperf": made_results.aiperf(),
    "aiperf-records": made_results.aiperf_records(),
    "guidellm": made_results.guidellm(),
    "inference-perf": made_results.inference_perf(),
    "inference-perf-requests": made_results.inference_perf_requests(),
    "aisimulate-records": made_results.own_records(),
    "vllm-clocks": "".join(
        json.dumps(
            {
                "arrival_time": 100.0 + number,
                "queued_ts": 7.0 + number,
                "scheduled_ts": 7.1 + number,
                "first_token_ts": 7.5 + number,
                "last_token_ts": 8.5 + number,
                "input_toks": 64,
                "output_toks": 8,
            }
        )
        + "\n"
        for number in range(4)
    ),
}
TABLES = {
    "table.csv": "concurrency,ttft_ms,tpot_ms\n2,60,7\n8,100,9\n",
    "table.json": json.dumps({"rows": [{"concurrency": 2, "ttft_ms": 60, "tpot_ms": 7}]}),
    "table.yaml": yaml.safe_dump([{"rate_rps": 2, "ttft_ms": 60, "tpot_ms": 7}]),
}
CALIBRATION = {
    "version": 1,
    "key": {"backend": "vllm", "model": "m", "tp": 2},
    "prefill_scale": 1.1,
    "decode_scale": 0.9,
    "ttft_offset_ms": 3.0,
    "points": [{"concurrency": 2, "step_scale": 1.2}, {"concurrency": 8, "ttft_ratio": 2.0}],
    "training_error": {"ttft": 0.1},
    "source": {"file": "log.jsonl", "sha256": "0" * 64, "format": "vllm", "requests": 4},
    "notes": ["one"],
}


def broken(text, data):
    """A text with wounds, or with other values in it, at any depth."""
    try:
        document = json.loads(text)
    except ValueError:  # lines of JSON, or a table
        return data.draw(st.sampled_from([torn, revalued]), "how")(text, data)
    if data.draw(st.booleans(), "torn"):
        return torn(text, data)
    return json.dumps(changed(document, data))


def write(folder, name, text):
    path = folder / f"fuzzed-{name}"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


def read_or_named(read, path):
    try:
        read(path)
    except InputError as error:
        one_printable_line(str(error))
        assert path.name in str(error), str(error)


def test_every_format_is_fuzzed():
    assert set(RESULTS) >= set(FORMATS) - {"aisimulate"}


@FUZZED
@given(data=st.data(), name=st.sampled_from(sorted(RESULTS)))
def test_a_broken_result_is_read_or_named(tmp_path_factory, data, name):
    path = write(tmp_path_factory.getbasetemp(), f"{name}.json", broken(RESULTS[name], data))
    read_or_named(lambda path: read_run(path, name), path)
    read_or_named(read_run, path)
    read_or_named(read_log, path)


@FUZZED
@given(data=st.data(), name=st.sampled_from(sorted(RESULTS)))
def test_a_broken_result_is_compared_or_is_one_line(tmp_path_factory, capsys, data, name):
    """What can be read can be set beside another, and printed."""
    folder = tmp_path_factory.getbasetemp()
    path = write(folder, "measured.json", broken(RESULTS[name], data))
    (folder / "ours.jsonl").write_text(made_results.own_records())
    code = main(["compare", str(path), str(folder / "ours.jsonl")])
    error = capsys.readouterr().err
    assert code in (0, 2), error
    if code:
        one_printable_line(error.rstrip("\n"))


@FUZZED
@given(data=st.data(), name=st.sampled_from(sorted(TABLES)))
def test_a_broken_table_is_read_or_named(tmp_path_factory, data, name):
    read_or_named(read_table, write(tmp_path_factory.getbasetemp(), name, broken(TABLES[name], data)))


@FUZZED
@given(data=st.data(), ending=st.sampled_from(["json", "yaml"]))
def test_a_broken_calibration_is_read_or_named(tmp_path_factory, data, ending):
    text = broken(json.dumps(CALIBRATION), data)
    read_or_named(read_calibration, write(tmp_path_factory.getbasetemp(), f"calibration.{ending}", text))


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "made.sqlite"
    made_run(path, 6)
    return path.read_bytes()


@FUZZED
@given(data=st.data())
def test_a_damaged_record_is_read_or_named(tmp_path_factory, record, data):
    path = tmp_path_factory.getbasetemp() / "fuzzed.sqlite"
    found = bytearray(record)
    for _ in range(data.draw(st.integers(1, 4), "wounds")):
        at = data.draw(st.integers(0, len(found) - 1), "where")
        put = data.draw(st.binary(min_size=1, max_size=8), "put")
        found[at : at + len(put)] = put
    path.write_bytes(bytes(found[: data.draw(st.sampled_from([len(found), len(found) // 2]), "long")]))
    try:
        with Ledger.open_ledger(path) as ledger:
            read_ledger(ledger)
    except AISimulateError as error:
        one_printable_line(str(error))
        assert path.name in str(error)
