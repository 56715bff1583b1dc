"""What a contract leaves behind for the page "Verified statements": instances tried, and how tight they were.

Each contract file states its ``SETTING`` (what is allowed throughout) and its ``HYPOTHESES`` (name to words).
A test of the conclusion calls the fixture `evidence` once for each instance whose hypotheses it has checked;
a counterexample carries ``@pytest.mark.drops("name")``.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokensel as ts

RECORDS = pytest.StashKey[dict]()


class Evidence:
    """Figures of one statement, from all tests of its contract."""

    def __init__(self):
        self.ratios, self.errors, self.exact = [], [], 0

    def bound(self, measured, bound):
        """An instance of ``measured <= bound``: kept is their ratio, 1 where the bound is attained."""
        measured, bound = float(measured), float(bound)
        assert 0 <= measured <= bound < math.inf
        self.ratios.append(measured / bound if bound else 1.0)

    def limit(self, measured, predicted):
        """An instance of an equality or a limit: kept is the relative error, or the absolute one of 0."""
        error = abs(float(measured) - float(predicted)) / (abs(float(predicted)) or 1.0)
        assert error < math.inf
        self.errors.append(error)

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


class Saddle(NamedTuple):
    """One positive sequence, and a curve of p that the flow follows although p-hat points elsewhere."""

    corpus: ts.Corpus
    embeddings: np.ndarray
    output: np.ndarray
    direction: np.ndarray  # tight on both pairs, with one multiplier positive and one negative
    offset: np.ndarray  # on the curve p = direction log t + offset + o(1)
    curve: np.ndarray  # (k, 3), in the order of time


@pytest.fixture(scope="session")
def saddle():
    """The saddle of the chapter on gradient flow, followed backwards: what repels forwards then attracts."""
    embeddings = np.array([[0, 0, 1.0], [-1, 0, 1], [-1.5, -2, 1]])
    output = np.array([1.0, -1.0, 0.0])
    b = embeddings @ output
    z = embeddings[0] - embeddings[1:]
    direction = np.array([1, -0.25, 0])
    multipliers, coefficients = np.array([19 / 16, -1 / 8]), (b[0] - b[1:]) / 2
    offset = np.append(np.linalg.solve(z[:, :2], np.log(coefficients / multipliers)), 0)

    def backwards(_, p):
        """The gradient of the loss over its norm: up to a factor, the sum over the three pairs of tokens."""
        gaps = z @ p
        share = np.exp(-(gaps - gaps.min()))
        between = share[0] * np.exp(-gaps[1]) * (b[1] - b[2]) * (embeddings[1] - embeddings[2])
        force = (share * (b[0] - b[1:])) @ z + between
        return -force / np.linalg.norm(force)

    lengths = np.linspace(0, 295, 60)  # from a norm of about 300 down to about 5
    solution = solve_ivp(
        backwards, (0, 295), 300 * direction / np.linalg.norm(direction) + offset,
        method="LSODA", t_eval=lengths, rtol=1e-11, atol=1e-11,
    )  # fmt: skip
    assert solution.success
    corpus = ts.Corpus.from_sequences([[0, 1, 2]], labels=[+1])
    return Saddle(corpus, embeddings, output, direction, offset, solution.y.T[::-1])
