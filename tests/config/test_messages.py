"""One line per error, with path, value, rule and the nearest legal name - for any pydantic model."""

from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field, model_validator

from aisimulate.config.base import FieldError, StrictModel
from aisimulate.config.messages import parse_model, show

from .payloads import refused


class Cat(StrictModel):
    kind: Literal["cat"]
    lives: int = Field(default=9, ge=1, lt=10)


class Dog(StrictModel):
    kind: Literal["dog"]
    tricks: dict[str, Annotated[float, Field(gt=0.5, allow_inf_nan=False)]] | None = None


class Owner(StrictModel):
    field_aliases: ClassVar = {"years": "age"}

    name: str
    age: int | None = None
    mood: Literal["good", "bad"] = "good"
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(default_factory=list)
    friend: BaseModel | None = None
    tags: Annotated[tuple[str, ...], Field(strict=False, max_length=2)] = ()

    @model_validator(mode="after")
    def _named(self):
        if not self.name:
            raise FieldError("name", "'' is empty")
        if self.name == "nobody":
            raise ValueError("nobody owns nothing")
        return self


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "o: 3 is not an object"),
        ({}, "o.name: missing (required)"),
        ({"nam": "x"}, "o.nam: unknown field; did you mean 'name'? (and 1 more: o.name)"),
        ({"name": "x", "year": 3}, "o.year: unknown field; did you mean 'years'?"),
        ({"name": "x", "zzz": 3}, "o.zzz: unknown field"),
        ({"name": "x", "a\nb": 3}, "o.'a\\nb': unknown field"),
        ({"name": 3, "age": "4"}, "o.name: 3 is not a string (and 1 more: o.age)"),
        ({"name": "x", "age": True}, "o.age: true is not an integer"),
        ({"name": "x", "age": 8.0}, "o.age: 8.0 is not an integer"),
        (
            {"name": "x", "years": None, "age": 3},
            "o.age: duplicate field: given by its name and by its alias",
        ),
        ({"name": "x", "years": "4"}, "o.age: '4' is not an integer"),
        ({"name": "x", "mood": "god"}, "o.mood: 'god' is not one of 'good', 'bad'; did you mean 'good'?"),
        ({"name": "x", "mood": 1}, "o.mood: 1 is not one of 'good', 'bad'"),
        ({"name": "x", "pets": {}}, "o.pets: {} is not a list"),
        ({"name": "x", "pets": ["cat"]}, "o.pets[0]: 'cat' is not an object"),
        ({"name": "x", "pets": [{}]}, "o.pets[0]: field 'kind' is missing (one of 'cat', 'dog')"),
        (
            {"name": "x", "pets": [{"kind": "cat"}, {"kind": "cta"}]},
            "o.pets[1]: kind 'cta' is not one of 'cat', 'dog'; did you mean 'cat'?",
        ),
        ({"name": "x", "pets": [{"kind": "cat", "lives": 0}]}, "o.pets[0].lives: 0 is not >= 1"),
        ({"name": "x", "pets": [{"kind": "cat", "lives": 10}]}, "o.pets[0].lives: 10 is not < 10"),
        (
            {"name": "x", "pets": [{"kind": "cat", "live": 1}]},
            "o.pets[0].live: unknown field; did you mean 'lives'?",
        ),
        ({"name": "x", "pets": [{"kind": "dog", "lives": 1}]}, "o.pets[0].lives: unknown field"),
        (
            {"name": "x", "pets": [{"kind": "dog", "tricks": {"sit": 0.5}}]},
            "o.pets[0].tricks.sit: 0.5 is not > 0.5",
        ),
        (
            {"name": "x", "pets": [{"kind": "dog", "tricks": {"sit": float("inf")}}]},
            "o.pets[0].tricks.sit: Infinity is not finite",
        ),
        ({"name": ""}, "o.name: '' is empty"),
        ({"name": "nobody"}, "o: nobody owns nothing"),
    ],
)
def test_each_problem_is_told_in_one_line(value, text):
    assert refused(parse_model, Owner, value, "o") == text


def test_further_problems_are_counted_and_the_first_three_named():
    pets = [{"kind": "cat", "lives": 0}] * 4
    told = "o.name: missing (required) (and 4 more: o.pets[0].lives, o.pets[1].lives, o.pets[2].lives, ...)"
    assert refused(parse_model, Owner, {"pets": pets}, "o") == told
    assert refused(parse_model, Owner, {"pets": pets[:3]}, "o").endswith("o.pets[2].lives)")


def test_other_pydantic_errors_keep_their_text():
    text = refused(parse_model, Owner, {"name": "x", "tags": ["a", "b", "c"]}, "o")
    assert text.startswith('o.tags: ["a", "b", "c"]: ')


def test_an_empty_root_leaves_the_path():
    assert refused(parse_model, Owner, {}, "") == "name: missing (required)"
    assert refused(parse_model, Owner, 3, "") == "3 is not an object"


def test_a_legal_value_is_parsed():
    owner = parse_model(Owner, {"name": "x", "years": 4, "pets": [{"kind": "cat"}]}, "o")
    assert (owner.age, owner.pets[0].lives) == (4, 9)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\n'b", '"a\\n\'b"'),
        (None, "null"),
        ([1, "x"], '[1, "x"]'),
        ("x" * 100, "'" + "x" * 56 + "..."),
        (float("nan"), "NaN"),
    ],
)
def test_values_are_shown_shortly_on_one_line(value, text):
    assert show(value) == text


def test_a_value_too_big_to_print_is_named_by_its_type():
    assert show(10**5000) == "a huge int"
