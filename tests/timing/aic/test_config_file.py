"""A broken config.json is refused by file and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiconfigurator_core
import pytest

from aisimulate.core.errors import InputError
from aisimulate.timing.aic import model_facts
from aisimulate.timing.aic.config_file import config_problem
from aisimulate.timing.aic.errors import ModelNotAvailable
from aisimulate.timing.aic.system import known_systems, system_facts

CONFIGS = Path(aiconfigurator_core.__file__).parent / "model_configs"


def bundled(name: str) -> dict[str, Any]:
    return dict(json.loads((CONFIGS / f"{name}_config.json").read_text()))


def refusal(folder: Path, text: str) -> str:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelNotAvailable) as caught:
        model_facts(str(folder))
    return str(caught.value)


def test_the_bundled_ones_are_fine() -> None:
    files = [file for file in CONFIGS.glob("*_config.json") if "quant" not in file.name]
    assert len(files) > 50
    assert [(file.name, problem) for file in files if (problem := config_problem(file))] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "[] is not an object"),
        ("{}", "the key 'architectures' is missing"),
        ('"x"', "'x' is not an object"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "not JSON: Expecting property name"),
    ],
)
def test_no_config_at_all(tmp_path: Path, text: str, problem: str) -> None:
    assert refusal(tmp_path, text).startswith(
        f"AIC model: {str(tmp_path)!r}: unusable config.json: {problem}"
    )


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("architectures", [], "architectures [] is not a list of names"),
        ("architectures", ["Foo"], "The model's architecture Foo is not supported"),
        ("hidden_size", "big", "hidden_size 'big' is not a whole number from 1 on"),
        ("hidden_size", None, "the key 'hidden_size' is missing"),
        ("vocab_size", True, "vocab_size true is not a whole number from 1 on"),
        ("max_position_embeddings", {}, "max_position_embeddings {} is not a whole number from 1 on"),
        ("num_hidden_layers", 0, "num_hidden_layers 0 is not a whole number from 1 on"),
        ("num_key_value_heads", -1, "num_key_value_heads -1 is not a whole number from 0 on"),
        ("quantization_config", 3, "quantization_config 3 is not an object"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, key: str, value: object, problem: str) -> None:
    text = refusal(tmp_path, json.dumps(bundled("Qwen--Qwen3-8B") | {key: value}))
    assert f"unusable config.json: {problem}" in text


def test_what_only_one_architecture_needs_is_named(tmp_path: Path) -> None:
    config = bundled("zai-org--GLM-5-FP8")
    del config["q_lora_rank"]
    assert refusal(tmp_path, json.dumps(config)).endswith("the key 'q_lora_rank' is missing")


def test_the_language_part_of_a_multimodal_model_is_looked_at(tmp_path: Path) -> None:
    names = {"architectures": ["Llama4ForConditionalGeneration"]}
    assert refusal(tmp_path, json.dumps({**names, "text_config": []})).endswith(
        "text_config [] is not an object"
    )
    text = refusal(tmp_path, json.dumps({**names, "text_config": {"hidden_size": "x"}}))
    assert text.endswith("text_config.hidden_size 'x' is not a whole number from 1 on")


def test_a_systems_path_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="AIC systems_path: '/nope' is not a folder"):
        known_systems("/nope")
    with pytest.raises(InputError, match=r"AIC systems_path: .* holds no performance data"):
        system_facts("h200_sxm", str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_key_value_heads": 7}, "num_key_value_heads 7 does not divide num_attention_heads 32"),
        ({"num_key_value_heads": 64}, "num_key_value_heads 64 does not divide num_attention_heads 32"),
        (
            {"hidden_size": 4100, "head_dim": None},
            "hidden_size 4100 is not divisible by num_attention_heads 32, and no head_dim is given",
        ),
    ],
)
def test_heads_that_do_not_divide(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    config = bundled("meta-llama--Meta-Llama-3.1-8B") | changes
    assert refusal(tmp_path, json.dumps(config)).endswith(problem)


def test_heads_of_a_given_size_need_not_split_the_hidden_size(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps(bundled("meta-llama--Meta-Llama-3.1-8B") | {"hidden_size": 4100, "head_dim": 128})
    )
    assert config_problem(file) is None
