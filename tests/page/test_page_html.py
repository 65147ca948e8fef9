"""The page as a document: what it holds, that it fetches nothing, and that no text of a run is markup."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re

import pytest
import yaml

from aisimulate.report.inside import Inside
from aisimulate.report.page.render import page_html, plotly_js
from aisimulate.spica.config import SmartSearchConfig
from tests.page.made_run import made_run

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}<b>"


class Page(html.parser.HTMLParser):
    """The elements of a page, with their attributes and texts."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.texts = {}
        self._open = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, dict(attrs).get("id"), len(self.elements)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for tag, name, number in self._open:
            key = name or f"{tag} {number}"
            self.texts[key] = self.texts.get(key, "") + data

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def data_of(page):
    return json.loads(page.texts["page-data"])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("runs") / "made.sqlite")


@pytest.fixture(scope="module")
def text(run):
    return page_html(run, gpu_hour_price=2.5)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_fetches_nothing(text, page):
    own = text.replace(plotly_js(), "")
    assert not re.search(r"""(?:src|href|action)\s*=\s*["']?(?:https?:)?//""", own)
    assert not re.search(r"@import|url\(", own)
    policy = page.of("meta")[1]["content"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy


def test_only_its_own_scripts_may_run(text, page):
    """The policy lists the hash of every script of the page, and nothing else."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = re.search(r"script-src ([^;]*);", page.of("meta")[1]["content"])[1]
    assert allowed == " ".join(f"'sha256-{digest}'" for digest in hashes)
    assert len(scripts) == 2


def test_every_feasible_candidate_is_in_the_data_and_in_the_table(run, page):
    data = data_of(page)
    feasible = [a.number for a in run.attempts if a.outcome.candidate is not None]
    assert sorted(row["number"] for row in data["rows"]) == feasible
    numbers = [int(line["data-number"]) for line in page.of("tr") if "data-number" in line]
    assert numbers == [row["number"] for row in data["rows"]]
    places = [row["place"] for row in data["rows"]]
    assert places[: len(run.candidates)] == list(range(1, len(run.candidates) + 1))
    assert set(places[len(run.candidates) :]) == {None}


def test_figures_and_metrics_are_those_of_the_ledger(run, page):
    data = data_of(page)
    names = [figure["name"] for figure in data["figures"]]
    assert names[:2] == ["throughput_per_gpu", "throughput_per_user"]
    assert "cost" in names
    by_number = {a.number: a.outcome.candidate for a in run.attempts}
    for row in data["rows"]:
        candidate = by_number[row["number"]]
        metrics = dict(zip(data["metric_names"], row["metrics"], strict=True))
        assert metrics == candidate.metrics
        config = data["config_same"] | dict(zip(data["config_names"], row["config"], strict=True))
        assert config == candidate.config
        assert row["figures"][0] == candidate.objectives["throughput_per_gpu"]
        cost = row["figures"][names.index("cost")]
        hours, tokens = candidate.metrics["gpu_hours"], candidate.metrics["total_output_tokens"]
        assert cost == pytest.approx(2.5 * hours / tokens * 1e6)
        assert "vllm serve acme/dense" in data["launches"][row["launch"]]


def test_rejected_attempts_are_grouped_by_reason(page):
    text = page.texts["rejected-table"]
    assert "kv_capacity" in text
    assert "infeasible" in text
    assert "no room in x" in text, "the folders of a path stay at home"


def test_rivals_and_evidence(page):
    for fact in ("0.12.0", "vllm 0.24.0 on h200_sxm", "additive", "c0ffee"):
        assert fact in page.texts["evidence"]
    rivals = page.texts["rivals-table"]
    assert rivals.count(" against ") == 2, "the next lies too far behind"


def test_a_first_one_that_stands_alone_is_said_to(run, monkeypatch):
    monkeypatch.setattr("aisimulate.report.evidence.NEAR", 0.01)
    page = Page(page_html(run))
    assert "rivals-table" not in page.texts
    assert "no other result is within 1% of the first in " in page.texts["evidence"]


@pytest.mark.parametrize("target", ["pareto", "goodput_per_gpu"])
def test_hostile_names_stay_texts(tmp_path, target):
    run = made_run(tmp_path / "hostile.sqlite", 12, model=HOSTILE, target=target)
    text = page_html(run)
    page = Page(text)
    assert not page.of("img")
    assert len(page.of("script")) == 3
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert "<img" not in text.replace(plotly_js(), "")
    assert any(HOSTILE in words for name, words in page.texts.items() if name.startswith("title"))
    assert data_of(page)["config_same"]["model_name"] == HOSTILE


def test_no_path_and_no_secret_leaves_the_machine(tmp_path):
    trace = "/home/jo anne/traffic of acme/peak.jsonl"
    model = "/srv/models/secret project/llama"
    run = made_run(tmp_path / "private.sqlite", 12, model=model, trace=trace, target="goodput")
    text = page_html(run).replace(plotly_js(), "")
    for private in ("jo anne", "/home", "/srv", "secret project", "traffic of acme", str(tmp_path)):
        assert private not in text
    assert "peak.jsonl" in text
    assert re.search(r"vllm serve (\\u0027|')?llama", text)


def test_a_path_is_cut_as_named_and_as_resolved(tmp_path, monkeypatch):
    home = tmp_path / "home of jo anne"
    home.mkdir()
    monkeypatch.chdir(home)
    run = made_run(tmp_path / "private.sqlite", 4, trace="traffic of acme/peak.jsonl", target="goodput")
    asked = run.facts["asked"]["workload"]
    asked["trace_path"] = str(home / asked["trace_path"])
    note = Inside(note=f"no such file (relative paths are taken from the current directory, {home})")
    text = page_html(run, inside={1: note}).replace(plotly_js(), "")
    assert "jo anne" not in text.replace("current directory, home of jo anne", "")
    assert "traffic of acme" not in text
    assert "trace_path: peak.jsonl" in text


def test_the_downloaded_search_asks_the_same(run, page):
    again = SmartSearchConfig.model_validate(yaml.safe_load(data_of(page)["asked"]))
    assert again.model_dump(mode="json") == run.config.model_dump(mode="json")


def test_another_run_stands_beside_it(run, tmp_path):
    other = made_run(tmp_path / "other.sqlite", 12, model="/srv/models of acme/other <b>")
    page = Page(page_html(run, other=other))
    text = page.texts["other-run-table"]
    assert "search_space.model_name" in text
    assert '"other <b>"' in text
    assert "/srv" not in text
    assert "throughput_per_gpu" in text
    assert "other-run-table" not in Page(page_html(run)).texts


def test_a_search_without_a_result_has_a_page(tmp_path):
    run = made_run(tmp_path / "empty.sqlite", 0)
    page = Page(page_html(run))
    assert data_of(page)["rows"] == []
    assert "candidates-table" not in page.texts
    assert "No candidate was feasible." in "".join(page.texts.values())


def test_every_control_has_a_name_and_every_plot_a_description(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labels = sum(tag == "label" for tag, _ in page.elements)
    assert labels == len(page.of("select")) + len(page.of("input"))
    plots = [a for a in page.of("div") if "plot" in a.get("class", "").split()]
    assert plots
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)
    for anchor in page.of("a"):
        target = anchor.get("href", "").removeprefix("#")
        assert target in ids or re.fullmatch(r"candidate-\d+", target)


def test_a_thousand_candidates_fit(tmp_path):
    run = made_run(tmp_path / "large.sqlite", 1112)
    text = page_html(run)
    assert len(data_of(Page(text))["rows"]) == 1001
    assert len(text.encode()) <= 12_000_000


def test_the_same_run_gives_the_same_bytes(run, text):
    assert page_html(run, gpu_hour_price=2.5) == text
