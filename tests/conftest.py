"""One browser for all tests that need one: of the explorers and of the built site."""

import os

import browsing
import pytest
from playwright.sync_api import sync_playwright


def pytest_addoption(parser):
    parser.addoption(
        "--reuse-contracts",
        action="store_true",
        help="leave out the contracts if the build of the book has run just these, and all passed",
    )


@pytest.fixture(scope="session")
def browser():
    """Chromium or Chrome, as this machine has it."""
    if browsing.chromium() is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium here, and under CI the pages must be tested in one")
        pytest.skip("no Chromium or Chrome on this machine (set CHROMIUM to its path)")
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(**browsing.launch_options())
        yield chrome
        chrome.close()
