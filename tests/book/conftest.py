"""Fixtures for the tests of the built site: its pages as files, and as a browser shows them."""

import browsing
import pytest
from bs4 import BeautifulSoup


@pytest.fixture(scope="session")
def site():
    """The folder of the built site."""
    missing = [address for address in browsing.pages() if not (browsing.SITE / f"{address}.html").is_file()]
    if missing:
        pytest.fail(f"not built: {', '.join(missing)}; run `make book` first")
    return browsing.SITE


@pytest.fixture(scope="session")
def soups(site):
    """Every built page, parsed: address to tree."""
    return {
        address: BeautifulSoup((site / f"{address}.html").read_text(encoding="utf-8"), "html.parser")
        for address in browsing.pages()
    }


class Visit:
    """A page opened in one view, with what it asked for and what it complained about since."""

    def __init__(self, browser, address, view):
        self.address, self.requests, self.complaints = address, [], []
        self.page = browser.new_context(**browsing.VIEWS[view]).new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self.note)
        browsing.visit(self.page, address)

    def note(self, message):
        if message.type == "error":
            self.complaints.append(message.text)

    def close(self):
        self.page.context.close()


@pytest.fixture(scope="module", params=browsing.pages())
def desktop(request, site, browser):
    visit = Visit(browser, request.param, "desktop")
    yield visit
    visit.close()


@pytest.fixture(scope="module", params=browsing.pages())
def dark(request, site, browser):
    visit = Visit(browser, request.param, "dark")
    yield visit
    visit.close()


@pytest.fixture(scope="module", params=browsing.pages())
def phone(request, site, browser):
    visit = Visit(browser, request.param, "phone")
    yield visit
    visit.close()
