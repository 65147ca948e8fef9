"""The page in a real browser: no complaint, the right points, the right candidate behind each of them."""

from __future__ import annotations

import csv
import json
import re
import threading
from pathlib import Path

import pytest
import yaml

from aisimulate.cli.page_server import page_server
from aisimulate.report.inside import Decision, Inside, PoolSamples
from aisimulate.report.page.render import page_html
from tests.page.made_run import made_run

HOSTILE = "</script><img src=x onerror=alert(1)><b>\"'&"
POINTS = "id => document.getElementById(id).data.map(trace => trace.x.filter(x => x !== null).length)"
CLICK = "([id, point]) => document.getElementById(id).emit('plotly_click', {points: [point]})"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("runs") / "made.sqlite")


@pytest.fixture(scope="module")
def address(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "made.html"
    path.write_text(page_html(run, gpu_hour_price=2.5))
    return path.as_uri()


@pytest.fixture
def page(visit, address):
    page = visit(address)
    yield page
    assert page.said == []
    assert page.asked_for == [page.url.partition("#")[0]] or all(
        url.startswith(("file:", "data:", "blob:")) for url in page.asked_for
    )


def test_the_front_has_the_points_of_the_ledger(page, run):
    front = page.evaluate("document.getElementById('tradeoff-plot').data[1].customdata")
    expected = {a.number for a in run.attempts if a.outcome.candidate in run.candidates}
    assert set(front) == expected
    behind, before, shown = page.evaluate(POINTS, "tradeoff-plot")
    assert behind + before == 36
    assert shown == 1
    drawn = page.locator("#tradeoff-plot .scatterlayer .trace").nth(0).locator("path.point").count()
    assert drawn == behind


def test_history_and_parallel_coordinates_have_every_candidate(page):
    evaluations, _, missed = page.evaluate(POINTS, "history-plot")
    assert (evaluations, missed) == (36, 4)
    axes = page.evaluate("document.getElementById('parallel-plot').layout.shapes.length")
    assert sum(page.evaluate(POINTS, "parallel-plot")) == 36 * axes


def test_a_real_click_on_a_point_opens_its_candidate(page):
    point = page.locator("#tradeoff-plot .scatterlayer .trace").nth(1).locator("path.point").nth(2)
    number = page.evaluate("document.getElementById('tradeoff-plot').data[1].customdata[2]")
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#tradeoff-plot .hovertext")
    assert page.locator("#tradeoff-plot .hovertext").text_content().startswith(f"{number} ")
    page.mouse.down()
    page.mouse.up()
    page.wait_for_function(f"() => location.hash === '#candidate-{number}'")
    assert page.locator("#candidate-title").text_content().startswith(f"Candidate {number}")
    assert page.evaluate("document.activeElement.id") == "candidate-title"
    assert page.locator("tr.chosen").get_attribute("data-number") == str(number)


@pytest.mark.parametrize("plot", ["history-plot", "parallel-plot"])
def test_every_plot_opens_the_candidate_of_the_point(page, plot):
    number = page.evaluate("id => document.getElementById(id).data[0].customdata[0]", plot)
    page.evaluate(CLICK, [plot, {"customdata": number}])
    page.wait_for_function(f"() => location.hash === '#candidate-{number}'")
    assert page.locator("#candidate-title").text_content().startswith(f"Candidate {number}")


def test_the_panel_shows_the_numbers_of_its_candidate(page, run):
    number = run.attempts[5].number
    page.evaluate(f"location.hash = 'candidate-{number}'")
    page.wait_for_function(
        f"() => document.getElementById('candidate-title').textContent.includes('{number}')"
    )
    text = page.locator("#candidate-panel").inner_text()
    candidate = run.attempts[5].outcome.candidate
    assert f"{candidate.objectives['throughput_per_gpu']:,.1f}" in text
    assert f"{candidate.metrics['p95_e2e_latency_ms']:,.0f}" in text
    assert "--tensor-parallel-size 2" in text
    assert "vllm 0.24.0" in text
    assert "Seed: 7" in text


def test_the_keyboard_reaches_and_opens_a_candidate(page):
    link = page.locator("#candidates-table tbody a").nth(3)
    number = link.text_content()
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => location.hash === '#candidate-{number}'")
    page.locator("#candidate-next").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => location.hash !== '#candidate-{number}'")


def test_two_candidates_side_by_side(page):
    page.evaluate("location.hash = 'compare-1-6'")
    page.wait_for_function("() => document.getElementById('compare-right').value === '6'")
    heads = page.locator("#compare-panel thead").first.inner_text()
    assert re.split(r"\s*\t\s*", heads.strip()) == ["figure", "candidate 1", "candidate 6", "change"]
    assert page.locator("#compare-panel tr.varied").count() > 0
    assert len(page.evaluate(POINTS, "compare-plot")) == 8


def test_sorting_and_filtering(page):
    column = page.locator("#candidates-table thead th").nth(3)
    column.locator("button").click()
    values = page.eval_on_selector_all(
        "#candidates-table tbody tr", "rows => rows.map(row => Number(row.children[3].dataset.value))"
    )
    assert values == sorted(values)
    assert column.get_attribute("aria-sort") == "ascending"
    page.locator("#candidates-filter").fill("tp8 8192/256")
    shown = page.locator("#candidates-table tbody tr:visible th").all_text_contents()
    assert shown
    assert all(text.startswith("TP8") and "8192/256" in text for text in shown)
    assert page.locator("#candidates-count").text_content() == f"{len(shown)} of 36"


def fetched(page, button):
    with page.expect_download() as event:
        page.locator(button).click()
    return Path(event.value.path()).read_text()


def test_downloads(page, run):
    asked = yaml.safe_load(fetched(page, "#download-yaml"))
    assert asked["search_space"]["model_name"] == "acme/dense"
    rows = list(csv.DictReader(fetched(page, "#download-csv").splitlines()))
    assert len(rows) == 36
    first = run.candidates[0]
    assert float(rows[0]["metrics.p99_ttft_ms"]) == first.metrics["p99_ttft_ms"]
    assert rows[0]["config.model_name"] == "acme/dense"
    config = yaml.safe_load(fetched(page, "#download-candidate"))
    assert config == {name: value for name, value in first.config.items() if value is not None}
    assert "vllm serve acme/dense" in fetched(page, "#download-launch")


def test_hostile_names_are_shown_as_they_are(visit, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(page_html(made_run(tmp_path / "hostile.sqlite", 12, model=HOSTILE)))
    page = visit(path.as_uri())
    assert page.locator("h1").text_content() == HOSTILE
    assert HOSTILE in page.locator("#candidate-panel").inner_text()
    assert page.locator("img").count() == 0
    assert page.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window_and_text_has_contrast(visit, address, scheme, width):
    page = visit(address, width=width, height=844, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor,"
        " document.getElementById('tradeoff-plot').layout.paper_bgcolor]"
    )
    assert contrast(*colours[:2]) >= 7
    soft = page.evaluate("getComputedStyle(document.querySelector('.note')).color")
    assert contrast(soft, colours[1]) >= 4.5
    assert colours[2] == ("#ffffff" if scheme == "light" else "#12161b")
    assert page.said == []


def contrast(*colours):
    """The ratio of WCAG between two colours that the browser computed."""
    light, dark = sorted((luminance(colour) for colour in colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_print_hides_the_controls(page):
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert not page.locator("#downloads").is_visible()
    assert page.locator("#candidates-table").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = page.eval_on_selector_all(".plot", "plots => plots.map(plot => plot._fullLayout.width)")
    assert max(widths) <= 680
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function("() => document.getElementById('tradeoff-plot')._fullLayout.width > 1000")


def test_the_table_is_there_without_scripts(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("#candidates-table tbody tr").count() == 36
    context.close()


def test_a_search_without_a_result(visit, tmp_path):
    path = tmp_path / "empty.html"
    path.write_text(page_html(made_run(tmp_path / "empty.sqlite", 0)))
    page = visit(path.as_uri())
    assert page.said == []
    assert yaml.safe_load(fetched(page, "#download-yaml"))["goal"]["target"] == "pareto"


def test_a_live_page_follows_its_search(visit, tmp_path):
    path = tmp_path / "live.sqlite"
    made_run(path, 10, status="running")
    with page_server(path, port=0, gpu_hour_price=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(f"http://127.0.0.1:{server.server_port}/")
        assert page.locator("#candidates-table tbody tr").count() == 9
        path.unlink()
        made_run(path, 20)
        page.wait_for_function("() => document.querySelectorAll('#candidates-table tbody tr').length === 18")
        state = json.loads(page.evaluate("fetch('state').then(answer => answer.text())"))
        assert state == {"attempts": 20, "status": "done"}
        assert page.said == []
        server.shutdown()


def test_what_a_second_replay_showed_is_drawn(visit, tmp_path, run):
    number = run.attempts[5].number
    pools = {"agg": PoolSamples([1, 2], [0, 3], [0.1, 0.9], [2, 2])}
    decisions = [Decision(5.0, "scale_up", 40, {"agg": 2}, {"agg": 3})]
    inside = Inside([0.0, 1.5], pools, {"measured": 1, "interpolated": 3}, decisions=decisions)
    inside.percentiles = {"ttft_ms": [float(value) for value in range(1, 102)]}
    path = tmp_path / "inside.html"
    path.write_text(page_html(run, inside={number: inside}))
    page = visit(f"{path.as_uri()}#candidate-{number}")
    assert page.evaluate(POINTS, "inside-plot") == [2, 2, 2, 2]
    assert page.evaluate(POINTS, "latency-plot")[0] == 101
    assert (
        "Its forwards were 25.0% measured, 75.0% interpolated."
        in page.locator("#candidate-origin").text_content()
    )
    page.locator("#decisions summary").click()
    assert re.search(r"scale_up\s+40\s+agg 2\s+agg 3", page.locator("#decisions").inner_text())
    assert "agg: requests waiting" in page.locator("#candidate-panel").inner_text()
    assert page.said == []
