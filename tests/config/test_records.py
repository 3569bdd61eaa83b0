"""A list of sections: read from a file and from one line alike, and refused item by item, each at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.config.load import load
from plimsoll.config.providers import KwokOffering
from tests.config.reading import load_text, problems_in

VARIABLE = "PLIMSOLL_PROVIDERS_KWOK_OFFERINGS"


def test_a_file_and_a_variable_say_the_same(tmp_path: Path) -> None:
    expected = (
        KwokOffering("a", cpu="4", memory="16Gi"),
        KwokOffering("b", cpu="500m", memory="2G", pods=8, price=0.25, labels={"zone": "a", "spot": "true"}),
    )
    text = """
providers:
  kwok:
    offerings:
      - {id: a, cpu: 4, memory: 16Gi}
      - id: b
        cpu: 500m
        memory: 2G
        pods: 8
        price: 0.25
        labels: {zone: a, spot: "true"}
"""
    assert load_text(tmp_path, text).config.providers.kwok.offerings == expected
    line = "[{id: a, cpu: 4, memory: 16Gi},"
    line += ' {"id": "b", "cpu": "500m", "memory": "2G", "pods": 8, "price": 0.25, "labels": {"zone": "a", "spot": "true"}}]'
    assert load(environ={VARIABLE: line}).config.providers.kwok.offerings == expected


@pytest.mark.parametrize("text", ["", "[]"])
def test_an_empty_list_is_empty(text: str) -> None:
    assert load(environ={VARIABLE: text}).config.providers.kwok.offerings == ()


@pytest.mark.parametrize(
    ("item", "column", "message"),
    [
        ("small", 6, '"small" where a section with the keys id, cpu, memory, pods, price, labels is expected'),
        ("{id: a}", 6, "cpu, memory missing; expected is a section with the keys id, cpu"),
        ("{id: a, cpu: 1, memory: 1, prize: 2}", 33, "prize is an unknown key; did you mean price?"),
        ("{id: a, cpu: 1, cpu: 2, memory: 1}", 22, "cpu is given twice"),
        ("{id: a, cpu: much, memory: 1}", 19, 'cpu: "much" is not a quantity above zero, such as 4, 500m or 16Gi'),
        ("{id: a, cpu: 0, memory: 1}", 19, 'cpu: "0" is not a quantity above zero'),
        ("{id: a, cpu: 0m, memory: 1}", 19, 'cpu: "0m" is not a quantity above zero'),
        ("{id: a, cpu: , memory: 1}", 18, "cpu: no value; a quantity above zero"),
        ("{id: '', cpu: 1, memory: 1}", 11, 'id: "" is not a text that is not empty'),
        ("{id: a, cpu: 1, memory: 1, price: -1}", 40, 'price: "-1" is not a number of at least 0'),
        ("{id: a, cpu: 1, memory: 1, price: '1'}", 40, 'price: "1" is in quotes, which makes it a text'),
        ("{id: a, cpu: 1, memory: 1, pods: 0}", 39, "pods: 0 is not a whole number of at least 1"),
        ("{id: a, cpu: 1, memory: 1, labels: [x]}", 41, "labels: a list where texts under keys are expected"),
        ("{id: a, cpu: 1, memory: 1, labels: {spot: true}}", 48, "labels: true is a boolean to YAML"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, item: str, column: int, message: str) -> None:
    (problem,) = problems_in(tmp_path, f"providers:\n kwok:\n  offerings:\n   - {item}\n")
    assert problem.startswith(f"plimsoll.yaml:4:{column}: providers.kwok.offerings: {message}")


def test_every_item_that_is_wrong_is_named(tmp_path: Path) -> None:
    first, second = problems_in(tmp_path, "providers: {kwok: {offerings: [3, {id: a, cpu: 1, memory: 1}, {id: 5}]}}")
    assert '"3" where a section' in first
    assert "put it in quotes" in second


def test_an_id_may_be_there_once(tmp_path: Path) -> None:
    one = "{id: a, cpu: 1, memory: 1}"
    (problem,) = problems_in(tmp_path, f"providers: {{kwok: {{offerings: [{one}, {one}]}}}}")
    assert '"a" is in the list twice' in problem


@pytest.mark.parametrize("text", ["{", "small", "{id: a}"])
def test_a_line_that_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    (problem,) = problems_in(tmp_path, "", {VARIABLE: text})
    assert problem.startswith(f"{VARIABLE}: providers.kwok.offerings: ")
    assert "a list of sections with the keys id, cpu" in problem
