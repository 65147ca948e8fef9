"""The edge configurations with the outcome that is required of us (spec 05 section 1)."""

import copy
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from aisimulate.config.messages import one_line
from aisimulate.spica.config import SmartSearchConfig

DATA = Path(__file__).parents[1] / "data" / "search" / "config_edge_cases.json"
CASES = {case["id"]: case for case in json.loads(DATA.read_text())["cases"]}


@pytest.mark.parametrize("name", CASES)
def test_edge_configuration_has_the_required_outcome(name):
    case = CASES[name]
    given = copy.deepcopy(case["config"])
    if case["required"] == "accept":
        SmartSearchConfig.model_validate(given)
    else:
        with pytest.raises(ValidationError) as caught:
            SmartSearchConfig.model_validate(given)
        for text in (str(caught.value), one_line(caught.value, "", SmartSearchConfig)):
            assert [word for word in case["message_names"] if word not in text] == []
        assert "\n" not in text
    assert given == case["config"], "the caller's mapping must not change"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["required"] == "accept"])
def test_a_dumped_config_loads_again(name):
    config = SmartSearchConfig.model_validate(CASES[name]["config"])
    dumped = config.model_dump(mode="json")
    assert SmartSearchConfig.model_validate(dumped).model_dump(mode="json") == dumped


def test_all_cases_are_here():
    assert len(CASES) == 43
