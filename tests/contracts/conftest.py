"""What a contract leaves behind for the page "Verified statements": instances tried, and how tight they were.

Each contract file states its ``SETTING`` (what is allowed throughout) and its ``HYPOTHESES`` (name to words).
A test of the conclusion calls the fixture `evidence` once for each instance whose hypotheses it has checked;
a counterexample carries ``@pytest.mark.drops("name")``.
"""

import math
from collections import defaultdict

import pytest

RECORDS = pytest.StashKey[dict]()


class Evidence:
    """Figures of one statement, from all tests of its contract."""

    def __init__(self):
        self.ratios, self.errors, self.exact = [], [], 0

    def bound(self, measured, bound):
        """An instance of ``measured <= bound``: kept is their ratio, 1 where the bound is attained."""
        measured, bound = float(measured), float(bound)
        assert math.isfinite(measured) and math.isfinite(bound)
        assert measured <= bound
        self.ratios.append(measured / bound if bound else 1.0)

    def limit(self, measured, predicted):
        """An instance of an equality or a limit: kept is the relative error (absolute where 0 is predicted)."""
        measured, predicted = float(measured), float(predicted)
        assert math.isfinite(measured) and math.isfinite(predicted)
        self.errors.append(abs(measured - predicted) / (abs(predicted) or 1.0))

    def holds(self, instances=1):
        """Instances of a yes-or-no conclusion, which the test has asserted itself."""
        self.exact += instances


def pytest_configure(config):
    config.stash[RECORDS] = defaultdict(Evidence)
    config.addinivalue_line("markers", "drops(hypothesis): a counterexample without this hypothesis")


@pytest.fixture
def evidence(request):
    """The record of the statement whose contract this file is."""
    label = request.path.stem.removeprefix("test_").replace("_", "-")
    return request.config.stash[RECORDS][label]
