"""The repository's own rules: short code, one version, working links, commands that exist."""

import re
import tomllib
from pathlib import Path

import pytest

import aisimulate
from tools.bench.measuring import Cost
from tools.bench.scenarios import BENCHMARKS, SCENARIOS, Benchmark, Bounds
from tools.bench.table import Row, table_lines
from tools.check_limits import check_source, main

ROOT = Path(__file__).parents[1]
CODE = ("src", "tools", "tests")
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "tools").rglob("*.md")),
]
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ""}
# Put together here so that this file does not contain what it looks for.
UNWANTED = [re.compile("(?<![\\w.-])/wo" + "rk/"), re.compile("py" + "pi\\.org|pythonhos" + "ted")]


def function_of(lines):
    return "\n".join(["def f():", *["    x = 1"] * (lines - 1)])


@pytest.mark.parametrize(("lines", "word"), [(40, None), (41, "note"), (60, "note"), (61, "error")], ids=str)
def test_function_limit(lines, word):
    findings = [str(found) for found in check_source(Path("m.py"), function_of(lines))]
    assert [text.partition(":")[0] for text in findings] == ([word] if word else [])


@pytest.mark.parametrize(
    ("lines", "word"), [(400, None), (401, "note"), (600, "note"), (601, "error")], ids=str
)
def test_file_limit(lines, word):
    findings = [str(found) for found in check_source(Path("m.py"), "x = 1\n" * lines)]
    assert [text.partition(":")[0] for text in findings] == ([word] if word else [])


def test_limits_fail_the_check(tmp_path, capsys):
    (tmp_path / "long.py").write_text(function_of(61))
    assert main([str(tmp_path)]) == 1
    assert "long.py:1 f: 61 lines (limit 60)" in capsys.readouterr().out
    (tmp_path / "long.py").write_text(function_of(60))
    assert main([str(tmp_path)]) == 0


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == aisimulate.__version__
    assert f"## [{aisimulate.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(document):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (document.parent / link).exists()] == []


def test_documented_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set()
    for document in DOCUMENTS:
        named.update(re.findall(r"`make ([a-z-]+)[^`]*`|^make ([a-z-]+)", document.read_text(), re.MULTILINE))
    named = {name for pair in named for name in pair if name}
    assert {"demo", "test", "bench"} <= named
    assert named <= targets


def test_continuous_integration_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"


def test_decisions_are_numbered_and_complete():
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    for path in records:
        headings = re.findall(r"^## (\w+)", path.read_text(), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], path.name
        assert f"({path.name})" in index


def test_every_dependency_has_a_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = {re.split(r"[=<>\[]", text)[0] for group in (project["dependencies"], *extras) for text in group}
    reasons = "\n".join(path.read_text() for path in (ROOT / "docs" / "adr").glob("*.md")).lower()
    assert [name for name in sorted(wanted) if name.lower() not in reasons] == []


def test_nothing_names_a_machine_or_a_registry():
    found = []
    for path in repository_texts():
        text = path.read_text(errors="replace")
        found += [f"{path}: {pattern.pattern}" for pattern in UNWANTED if pattern.search(text)]
    assert found == []


def repository_texts():
    folders = (*CODE, "docs", "examples", ".ci")
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    return [path for path in files if path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts]


def test_benchmarks_have_their_scenarios():
    assert [item.name for item in BENCHMARKS if not (SCENARIOS / f"{item.source}.json").is_file()] == []
    assert len({item.name for item in BENCHMARKS}) == len(BENCHMARKS)


def cost(**changes):
    values = {
        "user_s": 1.0,
        "warm_user_s": None,
        "peak_rss_mb": 100.0,
        "passes": 500,
        "plans": 100,
        "completed": 10,
        "duration_ms": 1.0,
    }
    return Cost(**values | changes)


def row(bounds, ours, peer=None):
    return Row(Benchmark("name", "source", bounds), ours, peer)


def test_a_kept_bound_is_not_reported():
    bounds = Bounds(ratio=0.1, warm_ratio=0.1, rss_mb=100.0, plans=100)
    ours, peer = cost(warm_user_s=0.1, plans=103), cost(user_s=10.0, warm_user_s=1.0, plans=None)
    assert list(row(bounds, ours, peer).missed()) == []
    assert list(row(Bounds(ratio=0.1), cost(user_s=1e9)).missed()) == [], "without a peer there is no ratio"


@pytest.mark.parametrize(
    ("bounds", "ours", "word"),
    [
        (Bounds(ratio=0.1), cost(user_s=1.1), "ratio 0.11 "),
        (Bounds(warm_ratio=0.1), cost(warm_user_s=0.2), "second-replay ratio 0.2 "),
        (Bounds(rss_mb=99.0), cost(), "peak MB 100 "),
        (Bounds(plans=100), cost(plans=104), "plans 104 "),
        (Bounds(), cost(completed=9), "9 requests completed, peer 10"),
    ],
    ids=["ratio", "warm", "memory", "plans", "requests"],
)
def test_a_missed_bound_is_reported(bounds, ours, word):
    (text,) = row(bounds, ours, cost(user_s=10.0, warm_user_s=1.0)).missed()
    assert word in text


def test_the_table_has_a_line_per_replay():
    lines = table_lines([row(Bounds(), cost(warm_user_s=0.5), cost(user_s=4.0, warm_user_s=2.0))])
    assert len(lines) == 3
    assert "0.250" in lines[1]
    assert lines[2].split()[-3:] == ["0.500", "2.00", "0.250"]
