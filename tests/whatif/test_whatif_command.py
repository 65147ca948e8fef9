"""The `whatif` command: a payload or a recorded candidate, as table, JSON and page."""

from __future__ import annotations

import json

import pytest

import aisimulate
from aisimulate.cli.main import main
from aisimulate.report.page.render import plotly_js
from tests.api.test_api import SEARCH
from tests.whatif.payloads import SYNTHETIC, aggregated

PAYLOAD = aggregated({**SYNTHETIC, "concurrency": 10})


@pytest.fixture
def whatif(tmp_path, capsys):
    """Run the command on a payload; return (exit code, stdout, stderr)."""

    def run(*options, payload=PAYLOAD):
        path = tmp_path / "payload.json"
        path.write_text(json.dumps(payload))
        return command(capsys, "--payload", path, "--jobs", "1", *options)

    return run


def command(capsys, *options):
    try:
        code = main(["whatif", *map(str, options)])
    except SystemExit as ending:
        code = ending.code
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def data_of(page):
    return json.loads(page.split('id="page-data">')[1].split("</script>")[0])


def test_a_payload_as_a_table(whatif):
    code, out, err = whatif("--goal", "ttft")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("payload.json: ttft ")
    assert lines[2].split()[:5] == ["variant", "what", "changes", "ttft", "change"]
    assert "more-traffic" in out
    assert "  slower-disk (half the disk bandwidth): no g3_offload in this deployment" in lines
    assert "the order" not in out
    assert err.splitlines()[0] == "aisimulate whatif: replay 1 of 1: payload.json: as it is"
    assert err.splitlines()[1] == "aisimulate whatif: replay 1 of 14: payload.json: one worker more (3)"
    assert whatif("--goal", "ttft", "--quiet")[1:] == (out, "")


def test_one_variant_alone_and_values_replaced(whatif):
    code, out, _ = whatif(
        "--only", "more-kv", "--set", "spec.topology.workers.initial_workers=1", "--format", "json"
    )
    document = json.loads(out)
    assert code == 0
    assert [item["name"] for item in document["variants"]] == ["more-kv"]
    assert document["figures"]["gpus"] == pytest.approx(1.0)


def test_a_page_with_a_tornado(whatif, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("another's page")
    assert whatif("--html", page, "--goal", "e2e_latency")[0] == 2
    page.unlink()
    assert whatif("--html", page, "--goal", "e2e_latency")[0] == 0
    text = page.read_text()
    (plot,) = data_of(text)["plots"]
    better, worse = plot["traces"]
    assert all(change < 0 for change in better["x"]), "a lower latency is better"
    assert all(change >= 0 for change in worse["x"])
    order = plot["y"]["categoryarray"]
    assert set(order) == {*better["y"], *worse["y"]}
    sizes = {
        **dict(zip(better["y"], better["x"], strict=True)),
        **dict(zip(worse["y"], worse["x"], strict=True)),
    }
    assert abs(sizes[order[-1]]) == max(map(abs, sizes.values())), "the greatest is drawn on top"
    own = text.replace(plotly_js(), "")
    assert str(tmp_path) not in own
    assert "no g3_offload in this deployment" in own


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "les-kv"], "did you mean 'less-kv'"),
        (["--goal", "fast"], "'fast' is not one of throughput"),
        (["--goal", "goodput"], "--goal goodput: needs an SLA in the payload"),
        (["--top", "2"], "--top: compares candidates of a run"),
        (["--jobs", "0"], "'0' is not a whole number >= 1"),
        (["--html", "nowhere/page.html"], "nowhere is not a directory"),
        (["last"], "give a RUN, or --payload FILE"),
    ],
)
def test_bad_input_is_told_in_one_line(options, message, whatif):
    code, out, err = whatif(*options)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_bad_payload_is_told_in_one_line(whatif):
    code, out, err = whatif(payload={"spec": {"topology": {"kind": "ring"}}})
    assert (code, out) == (2, "")
    assert "spec.topology" in err
    code, out, err = whatif(payload=aggregated(PAYLOAD["traffic"], rank={"num_gpu_blocks": -1}))
    assert (code, out) == (2, "")
    assert "num_gpu_blocks" in err


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "real.sqlite"
    return aisimulate.recommend(SEARCH, run=path).run


def test_a_candidate_and_the_order_of_the_closest(run, capsys):
    options = (
        run.path,
        "best",
        "--only",
        "traffic",
        "--only",
        "kv",
        "--jobs",
        "1",
        "--format",
        "json",
        "--quiet",
    )
    code, out, err = command(capsys, *options)
    assert (code, err) == (0, "")
    document = json.loads(out)
    best = run.candidates[0]
    assert document["value"] == pytest.approx(best.score)
    assert {item["name"] for item in document["variants"]} == {
        "more-traffic",
        "less-traffic",
        "more-kv",
        "less-kv",
    }
    different = [item for item in run.candidates if item.metrics != best.metrics]
    listed = document["order"]["candidates"]
    assert len(listed) == 1 + min(2, len(different))
    assert listed[0]["deployment"] == document["deployment"]
    changed = len(document["order"]["variants_that_change_it"])
    assert document["order"]["variants_that_hold"] + changed == 4


def test_another_candidate_alone(run, capsys):
    worst = run.candidates[-1]
    number = next(attempt.number for attempt, one in run.measured if one is worst)
    options = (run.path, number, "--only", "kv", "--top", "1", "--jobs", "1", "--quiet")
    code, out, _ = command(capsys, *options)
    assert code == 0
    assert out.startswith(f"candidate {number}, ")
    assert "the order" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nowhere"], "there is no run 'nowhere'"),
        (["RUN", "999"], "there is no candidate '999'"),
        (["RUN", "--set", "a=1"], "--set: replaces values of a payload"),
        ([], "give a RUN, or --payload FILE"),
    ],
)
def test_a_run_that_is_not_there(options, message, run, capsys):
    code, out, err = command(capsys, *[run.path if option == "RUN" else option for option in options])
    assert (code, out) == (2, "")
    assert message in err


def test_a_deployment_that_serves_nothing_cannot_be_varied(whatif):
    code, out, err = whatif("--set", "spec.engine.rank.num_gpu_blocks=1", "--quiet")
    assert (code, out) == (2, "")
    assert err == (
        "aisimulate whatif: error: payload.json: as it is: no request completed "
        "(prompt_exceeds_kv_capacity): nothing to vary\n"
    )
