"""The documentation's site: every document has its place in it, and it fetches nothing."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def pages(nav):
    for item in nav:
        for value in item.values():
            if isinstance(value, str):
                yield value
            else:
                yield from pages(value)


def test_every_document_has_its_place():
    named = list(pages(SITE["nav"]))
    assert len(named) == len(set(named))
    documents = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert documents == {name for name in named if "/" not in name}


def test_no_fonts_from_elsewhere():
    assert SITE["theme"]["font"] is False
