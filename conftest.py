"""For all tests, doctests too: what they count is kept for the session, and Ctrl-C is heard."""

import os
import signal

import pytest

# A shell's background jobs ignore Ctrl-C, and so would all that they start; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _counts(tmp_path_factory):
    if "TOKENSEL_CACHE" in os.environ:  # as set by make: shared with the build of the book
        yield
        return
    os.environ["TOKENSEL_CACHE"] = str(tmp_path_factory.mktemp("counts"))
    yield
    del os.environ["TOKENSEL_CACHE"]
