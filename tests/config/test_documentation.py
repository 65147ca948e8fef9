"""docs/configuration.md is what the models say of their fields, and says what is not simulated yet."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python

from aisimulate.config.aic import AicConfig
from aisimulate.config.kv_router import KvRouterConfig
from aisimulate.config.spec import ReplaySpec
from aisimulate.config.traffic import RuntimeTraffic
from aisimulate.spica.config import SmartSearchConfig
from aisimulate.spica.parallel_pins import PIN_KEYS
from model_walk import models_below
from tools import config_fields
from tools.config_fields import HEADER, SECTIONS

from .field_walk import STAYS, Acts
from .test_every_payload_field_acts import TABLE as PAYLOAD_TABLE

TEXT = config_fields.PAGE.read_text()
LATER = "not simulated yet"


class Example(BaseModel):
    """A model that says what the tables need."""

    least_ms: Annotated[float, Field(gt=0)]
    """a wait"""
    penalty: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """a loss"""
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    """a part of it :unit: % :rule: not beside others"""
    mode: Literal["one", "two"] = "one"
    """which"""
    scale: Annotated[int, Field(gt=0, le=2**62)] = 1
    """of a size that spans
    lines :rule: only a square number"""


def tables() -> dict[str, list[list[str]]]:
    """The rows of the table below each heading."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in TEXT.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


ROWS = {heading: rows for heading, rows in tables().items() if tuple(rows[0]) == HEADER}


def documented(heading):
    return {row[0].strip("`"): row for row in ROWS[heading][2:]}


def test_every_model_has_a_table_and_every_table_a_model():
    assert set(ROWS) == set(SECTIONS)
    # A role is the engine without its two roles.
    models = models_below(SmartSearchConfig, ReplaySpec, RuntimeTraffic, AicConfig, KvRouterConfig)
    assert {model.__name__ for model in models} - {model.__name__ for model in SECTIONS.values()} == {
        "RoleConfig"
    }


def test_the_page_is_current():
    """`python tools/config_fields.py` writes the tables anew."""
    assert config_fields.main(["--check"]) == 0


def test_a_row_is_what_a_model_says_of_a_field():
    assert config_fields.table(Example) == [
        "| field | type | default | unit | rule | what it does |",
        "|---|---|---|---|---|---|",
        "| `least_ms` | number | required | ms | > 0 | a wait |",
        "| `penalty` | number | `0.0` | | >= 0, below 1 | a loss |",
        "| `share` | number | `null` | % | 0 to 1; not beside others | a part of it |",
        '| `mode` | text | `"one"` | | `one`, `two` | which |',
        "| `scale` | integer | `1` | | only a square number | of a size that spans lines |",
    ]


def test_a_field_without_a_text_is_named():
    class Silent(Example):
        more: int = 1

    with pytest.raises(SystemExit, match="Silent: more without a string"):
        config_fields.table(Silent)


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_table_states_the_defaults(heading):
    for name, field in SECTIONS[heading].model_fields.items():
        stated = documented(heading)[name][2]
        if field.is_required():
            assert stated == "required", name
            continue
        default = field.get_default(call_default_factory=True)
        value = json.loads(stated.strip("`"))
        if isinstance(default, BaseModel):
            assert type(default).model_validate(value) == default, name
        else:
            assert to_jsonable_python(default) == value, name
            assert type(to_jsonable_python(default)) is type(value), name


@pytest.mark.parametrize(
    "heading", [heading for heading in SECTIONS if SECTIONS[heading] in PAYLOAD_TABLE.rows]
)
def test_a_payload_field_that_comes_later_says_so(heading):
    for name, effects in PAYLOAD_TABLE.rows[SECTIONS[heading]].items():
        later = not any(isinstance(effect, Acts) or effect.why in STAYS for effect in effects)
        assert not later or LATER in documented(heading)[name][5], name


def test_pins_are_documented():
    keys = [row[0] for row in tables()["parallel_configs"][2:]]
    assert keys == list(PIN_KEYS)


def test_links_inside_the_page_lead_to_headings():
    headings = [line.lstrip("# ") for line in TEXT.splitlines() if line.startswith("#")]
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors


@pytest.mark.parametrize(
    "statement",
    [
        "arrivals are evenly spaced",
        "null is the value of `parallel_evals`",
        "the ratio times the load (concurrency, or rate), rounded half away from zero, at least 1",
    ],
)
def test_what_is_easily_misunderstood_is_said(statement):
    assert statement in TEXT
