"""For all tests, doctests too: what they count is kept for the session, not in the account's cache."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _counts(tmp_path_factory):
    if "TOKENSEL_CACHE" in os.environ:  # as set by make: shared with the build of the book
        yield
        return
    os.environ["TOKENSEL_CACHE"] = str(tmp_path_factory.mktemp("counts"))
    yield
    del os.environ["TOKENSEL_CACHE"]
