"""The page of the documentation, written from the records."""

from __future__ import annotations

from pathlib import Path

from aisimulate.report.fronts import front_area, front_rows
from aisimulate.report.shapes import shape_text
from tools.published_experiment.alone import alone_text
from tools.published_experiment.records import DRAWN, FIXED, SEARCHED
from tools.published_experiment.svg import front_svg
from tools.published_experiment.tables import distinct, series_of

PAGE, IMAGES = Path("docs/pareto-experiments.md"), Path("docs/images")
TITLES = {"glm": "GLM-5 on 72 B200", "qwen": "Qwen3-235B-A22B on 64 H200"}
PICTURES = {"glm": "glm5-pareto.svg", "qwen": "qwen3-235b-pareto.svg"}
INTRODUCTION = Path(__file__).with_name("introduction.md")
_SHORT = {"throughput_per_gpu": "tok/s/GPU", "throughput_per_user": "tok/s/user", " of the larger": ""}
_NAMES = {SEARCHED: "the search", DRAWN: "the random search", FIXED: "the published deployments"}
_SHOWN_POINTS = 9
_POINT_COLUMNS = (
    "tok/s/user",
    "tok/s/GPU",
    "GPUs",
    "in flight",
    "prefill, decode workers",
    "prompt tokens a pass, sequences",
)


def write_page(experiments):
    """Write the page and its plots; `experiments` have the records by kind and the path of the repetition."""
    sections = [INTRODUCTION.read_text(encoding="utf-8")]
    for experiment, title in TITLES.items():
        records, alone = experiments.get(experiment, ({}, None))
        sections.append("\n".join(section(experiment, title, records, alone)))
    PAGE.write_text("\n".join(sections), encoding="utf-8")
    return PAGE


def section(experiment, title, records, alone):
    """Give the lines about one experiment."""
    yield f"## {title}\n"
    if SEARCHED not in records:
        yield "The config is there; its fronts were not searched for this page.\n"
        return
    picture = PICTURES[experiment]
    svg = front_svg([series_of(record.run, kind) for kind, record in records.items()])
    (IMAGES / picture).write_text(svg, encoding="utf-8")
    names = " and of ".join(_NAMES[kind] for kind in records)
    yield f"![The fronts of {names}](images/{picture})\n"
    yield from (f"{_effort(kind, record)}\n" for kind, record in records.items())
    yield "All figures are of whole replays.\n"
    yield from markdown(comparison(records))
    yield ""
    yield f"{_verdict(records)} {alone_text(alone)}\n"
    if FIXED in records:
        yield _about_fixed()
    yield from markdown([_POINT_COLUMNS, *points_of(records[SEARCHED].run)])
    yield ""


def comparison(records):
    """Set the fronts side by side."""
    runs = [record.run for record in records.values()]
    targets = runs[0].config.goal.targets
    rows = [("", *records), ("candidates", *(str(distinct(run)) for run in runs))]
    rows += front_rows(targets, [run.candidates for run in runs])
    return [tuple(_shortened(cell) for cell in row) for row in rows]


def points_of(run):
    """Describe points of a front that lie evenly along it, the cheapest tokens first."""
    first = run.config.goal.targets[0].value
    front = sorted(run.candidates, key=lambda candidate: -candidate.objectives[first])
    shown = min(_SHOWN_POINTS, len(front))
    places = [round(place * (len(front) - 1) / max(1, shown - 1)) for place in range(shown)]
    return [_point_row(front[place], run.config.goal.targets) for place in dict.fromkeys(places)]


def markdown(rows):
    """Set rows as a table, the first as its head."""
    head, *others = rows
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in others)


def _effort(kind, record):
    run, sweep = record.run, record.run.config.sweep
    rounds = f"{sweep.max_rounds} round{'s' * (sweep.max_rounds > 1)}"
    budget = f"{rounds} of {sweep.per_round}, seed {sweep.random_seed}"
    in_full = sum(attempt.branch == "finalists" for attempt in run.attempts)
    later = f", {in_full} of them then replayed in full" if in_full else ""
    taken = f": {record.spent.text()}" if record.spent else ""
    name = _NAMES[kind].removeprefix("the ")
    return f"{name[0].upper()}{name[1:]}: {budget}, {distinct(run)} candidates{later}{taken}."


def _verdict(records):
    areas = {
        kind: front_area(record.run.config.goal.targets, record.run.candidates)
        for kind, record in records.items()
    }
    mine = areas.pop(SEARCHED)
    parts = [f"{mine / area:.2f} times that of {_NAMES[kind]}" for kind, area in areas.items() if area]
    return f"The area under the search's front is {' and '.join(parts)}." if parts else ""


def _about_fixed():
    return (
        "The published deployments are replayed at their concurrency, a quarter, a 16th and a 64th of it.\n"
        "Their engine version has no timing data today, and their concurrency does not always fit the KV\n"
        "cache of today, so these are not the published figures.\n"
    )


def _point_row(candidate, targets):
    config = candidate.config
    first, second = (candidate.objectives[target.value] for target in targets)
    shapes = shape_text(config).split(" | ")
    roles = ("prefill", "decode")
    workers = (f"{config[f'{role}_replicas']} x {s}" for role, s in zip(roles, shapes, strict=True))
    limits = f"{config['prefill_max_num_seqs']} / {config['decode_max_num_seqs']}"
    return (
        f"{second:.1f}",
        f"{first:,.1f}",
        str(candidate.used_gpus),
        f"{config['concurrency']:,}",
        ", ".join(workers),
        f"{config['prefill_max_num_batched_tokens']}, {limits}",
    )


def _shortened(text):
    for long, short in _SHORT.items():
        text = text.replace(long, short)
    return text
