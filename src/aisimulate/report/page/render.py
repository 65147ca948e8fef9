"""From a recorded run to the page."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from aisimulate.core.errors import AISimulateError
from aisimulate.report.figures import figures
from aisimulate.report.inside import origins_text
from aisimulate.report.numbers import share_text
from aisimulate.report.page.candidates import candidate_rows, candidates_data, importances, knobs
from aisimulate.report.page.facts import asked_yaml, counts, evidence, numbered_rivals, question, stands_alone
from aisimulate.report.page.rejected import rejected_groups
from aisimulate.report.page.scrub import Scrubber, is_path
from aisimulate.report.runs import comparison_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aisimulate.report.figures import Figure
    from aisimulate.report.inside import Inside
    from aisimulate.report.page.candidates import Importance, Row
    from aisimulate.spica.recorded_run import RecordedRun

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("helpers.js", "charts.js", "panels.js", "main.js")


def page_html(
    run: RecordedRun,
    *,
    gpu_hour_price: float | None = None,
    live: bool = False,
    inside: Mapping[int, Inside] | None = None,
    other: RecordedRun | None = None,
) -> str:
    """Write the page of a run. `live`: it asks the server it came from whether the run went on.

    `inside`: what second replays of some candidates showed, by the numbers of their attempts. `other`: a run
    to set beside this one.

    Raises AISimulateError when the plotting library is not where its package says.
    """
    shown = figures(run.config.goal, gpu_hour_price)
    rows = candidate_rows(run)
    rated = importances(rows, shown)
    scrubber = Scrubber(_paths(run) if other is None else [*_paths(run), *_paths(other)])
    data = _data(run, rows, shown, rated, asked_yaml(run, scrubber))
    data |= {"live": live, "inside": {number: _inside(item) for number, item in (inside or {}).items()}}
    scripts = {"plotly": plotly_js(), "page": "\n".join(asset(name) for name in _SCRIPTS)}
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            run=run,
            question=question(run.config.model_dump(mode="json"), scrubber),
            figures=shown,
            rows=rows,
            counts=counts(run),
            importances=rated,
            rejected=rejected_groups(run, scrubber),
            evidence=data["evidence"],
            rivals=numbered_rivals(rows, shown),
            stands_alone=stands_alone(rows, shown),
            comparison=[] if other is None else scrubber.value(comparison_rows(run, other)),
            data=script_json(scrubber.value(data)),
            scripts=scripts,
            script_hashes=" ".join(csp_hash(text) for text in scripts.values()),
            style=asset("page.css"),
            live=live,
            scrub=scrubber.text,
        )
    )


def _paths(run: RecordedRun) -> list[str | None]:
    """List what a user named that may lie on a disk, as named and as resolved, and where we are."""
    asked = run.facts.get("asked", {}).get("workload", {}).get("trace_path")
    model = run.config.search_space.model_name
    named = [run.config.workload.trace_path, asked, model if is_path(model) else None]
    named.append(run.facts.get("model_folder"))
    return [*named, str(run.path.parent.resolve()), str(Path.cwd()), str(Path.home())]


def _data(
    run: RecordedRun,
    rows: Sequence[Row],
    shown: Sequence[Figure],
    rated: Sequence[Importance],
    asked: str,
) -> dict[str, Any]:
    """Gather what the page's script draws."""
    return {
        "run": {"name": run.name, "status": run.status, "attempts": len(run.attempts)},
        "figures": [_figure(figure) for figure in shown],
        "goal_figures": len(run.config.goal.targets),
        "is_pareto": run.config.goal.is_pareto,
        "knobs": knobs([row.candidate.config for row in rows]),
        "asked": asked,
        "evidence": evidence(run),
        "importance": [[item.knob, *item.shares.values()] for item in rated],
        **candidates_data(rows, shown),
    }


def plotly_js() -> str:
    """Return the text of the plotting library, without importing its package, which is slow."""
    spec = importlib.util.find_spec("plotly")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8").replace("</script", "<\\/script")
    raise AISimulateError("plotly's package has no plotly.min.js: install plotly again")


def script_json(value: Any) -> str:  # noqa: ANN401 - anything JSON holds
    """Write JSON that may stand in a script element whatever it contains."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _inside(item: Inside) -> dict[str, Any]:
    return {**asdict(item), "origins_text": origins_text(item.origins, item.beyond)}


def _figure(figure: Figure) -> dict[str, str]:
    return {"name": figure.name, "title": figure.title, "unit": figure.unit, "better": figure.better}


def environment() -> Environment:
    """Give the environment of the templates, which escapes every text."""
    environment = Environment(
        loader=PackageLoader("aisimulate.report.page", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["share"] = share_text
    return environment


def asset(name: str) -> str:
    """Read a file of the page's assets."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def csp_hash(script: str) -> str:
    """Give the hash by which a content security policy allows a script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
