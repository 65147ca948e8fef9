#!/usr/bin/env python3
"""Photograph a result page in Chromium for the documentation.

usage: python tools/page_screenshots.py PAGE.html FOLDER

Needs what `make test-page` installs. Writes the front in light and dark, a comparison, and a phone's view.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SHOTS = {
    "front-light": ("tradeoff", 1000, "light"),
    "front-dark": ("tradeoff", 1000, "dark"),
    "candidate-light": ("candidate", 1000, "light"),
    "compare-dark": ("compare", 1000, "dark"),
    "knobs-light": ("knobs", 1000, "light"),
    "phone-light": (None, 390, "light"),
}


def main(arguments: list[str]) -> int:
    """Take the pictures; return the exit code."""
    page_file, folder = (Path(argument) for argument in arguments)
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (part, width, scheme) in SHOTS.items():
            height = 844 if part is None else 700
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            page.goto(page_file.resolve().as_uri())
            page.wait_for_selector("html[data-ready=yes]")
            if part is not None:
                page.evaluate(
                    "part => document.getElementById(part).scrollIntoView({behavior: 'instant'})", part
                )
            page.wait_for_timeout(800)
            page.screenshot(path=str(folder / f"{name}.png"))
            context.close()
        browser.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[2], file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(main(sys.argv[1:]))
