"""A real Chromium, headless; `make test-page` installs it and runs these tests."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium found: install it, or name it in CHROMIUM"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open an address in a window; what the console said comes with the page and must stay empty."""
    contexts = []

    def go(address, width=1280, height=900, **options):
        context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.said = []
        page.asked_for = []
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.on("request", lambda request: page.asked_for.append(request.url))
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield go
    for context in contexts:
        context.close()
