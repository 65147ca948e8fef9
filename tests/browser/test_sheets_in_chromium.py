"""The pages of `compare` and `whatif` in a real browser: no complaint, nothing fetched, every plot drawn."""

from __future__ import annotations

import pytest

from aisimulate.fidelity.comparison import compare_runs
from aisimulate.fidelity.measured.formats import read_run
from aisimulate.report.page.comparison import comparison_page
from aisimulate.report.page.whatif import whatif_page
from aisimulate.spica.config_goal import OptimizationTarget
from aisimulate.whatif.catalogue import VARIANTS
from aisimulate.whatif.effects import Subject, sensitivities
from aisimulate.whatif.order import robustness
from tests.fidelity import made_results as made
from tests.whatif.payloads import SYNTHETIC, aggregated

HOSTILE = "<b>vllm</b><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    measured, simulated = folder / "measured.json", folder / "simulated.jsonl"
    measured.write_text(made.vllm().replace('"inf"', f'"{HOSTILE}"'))
    simulated.write_text(made.own_records(scale=1.25))
    page = folder / "page.html"
    page.write_text(comparison_page(compare_runs(read_run(measured), read_run(simulated))))
    return page.as_uri()


@pytest.fixture(scope="module")
def sensitivity(tmp_path_factory):
    payloads = [aggregated({**SYNTHETIC, "concurrency": 10}, workers=workers) for workers in (2, 3)]
    subjects = [Subject(f"{HOSTILE} {number}", payload) for number, payload in enumerate(payloads)]
    found = sensitivities(subjects, OptimizationTarget.THROUGHPUT_PER_GPU, VARIANTS)
    page = tmp_path_factory.mktemp("whatif") / "page.html"
    page.write_text(whatif_page(found[0], found, robustness(found), "a test"))
    return page.as_uri()


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


def quiet(page):
    assert page.said == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in page.asked_for)
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.dataset.ready") == "yes"


def test_both_distributions_are_drawn(visit, comparison, scheme):
    page = visit(comparison, color_scheme=scheme)
    curves = page.locator("#cdf-ttft_ms .scatterlayer .trace path.js-line")
    assert curves.count() == 2
    names = page.evaluate("document.getElementById('cdf-ttft_ms').data.map(trace => trace.name)")
    assert names == ["measured", "simulated"]
    colours = page.evaluate("document.getElementById('cdf-ttft_ms').data.map(trace => trace.line.color)")
    assert len(set(colours)) == 2
    assert HOSTILE in page.locator("dl.facts").inner_text()
    quiet(page)


def test_the_tornado_has_a_bar_for_every_effect(visit, sensitivity, scheme):
    page = visit(sensitivity, color_scheme=scheme)
    bars = page.locator("#tornado-plot .barlayer .point").count()
    rows = page.locator("#tornado tbody tr").count()
    assert bars == rows > 5
    top = page.evaluate("document.getElementById('tornado-plot').layout.yaxis.categoryarray.slice(-1)[0]")
    assert top == page.locator("#tornado tbody tr").first.locator("td").first.inner_text()
    assert page.locator("#order tbody tr").count() > 3
    quiet(page)


@pytest.mark.parametrize("width", [360, 1280])
def test_they_fit_a_phone_and_print(visit, comparison, sensitivity, width):
    for address in (comparison, sensitivity):
        page = visit(address, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.emulate_media(media="print")
        assert page.pdf()
        quiet(page)
