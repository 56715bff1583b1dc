"""Lemma lem-covariance: a covariance is a sum over pairs, and what that makes of the gradient of p.

Fractions make the identity exact; the split of the gradient is compared with autograd on an embedding lookup.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch

ORIGIN = "tool"
SETTING = r"""Any finite set, any real values $b_s$ and vectors $E_s$. For the gradient: any corpus, $E$, $p$
and $v$, and any choice of one token in each sequence."""
HYPOTHESES = {"sum": r"The weights $q_s$ have sum one."}
SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_identity_holds_in_exact_arithmetic(seed, evidence):
    rng = np.random.default_rng(seed)
    size, dim = rng.integers(1, 8), rng.integers(1, 5)
    raw = [Fraction(int(w)) for w in rng.integers(1, 50, size)]
    q = [w / sum(raw) for w in raw]
    b = [Fraction(int(x), 7) for x in rng.integers(-20, 20, size)]
    E = [[Fraction(int(x), 3) for x in row] for row in rng.integers(-9, 9, (size, dim))]
    f = sum(w * x for w, x in zip(q, b, strict=True))
    for k in range(dim):
        left = sum(q[s] * (b[s] - f) * E[s][k] for s in range(size))
        right = sum(
            q[s] * q[r] * (b[s] - b[r]) * (E[s][k] - E[r][k]) for s, r in combinations(range(size), 2)
        )
        assert left == right
    evidence.holds()


@pytest.mark.drops("sum")
def test_weights_of_sum_two_leave_the_sides_apart():
    """Two weights of 1: the left-hand side is 0, the right-hand side 1."""
    q, b, E = [Fraction(1), Fraction(1)], [Fraction(1), Fraction(0)], [Fraction(1), Fraction(0)]
    f = sum(w * x for w, x in zip(q, b, strict=True))
    left = sum(q[s] * (b[s] - f) * E[s] for s in range(2))
    assert left == 0
    assert q[0] * q[1] * (b[0] - b[1]) * (E[0] - E[1]) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_is_the_sum_over_selected_pairs_up_to_the_bounded_remainder(seed, evidence):
    """Equation eq-gradient-pairs with the bound eq-remainder, for any choice of tokens."""
    rng = np.random.default_rng(seed)
    n_tokens, dim, n = 7, 4, 5
    E, v, p = rng.normal(size=(n_tokens, dim)), rng.normal(size=dim), 2 * rng.normal(size=dim)
    sequences = [rng.integers(n_tokens, size=rng.integers(1, 7)) for _ in range(n)]
    y = rng.choice([-1, 1], n)

    leaf = torch.tensor(p, requires_grad=True)
    places = [torch.tensor(E[x]) for x in sequences]
    logits = torch.stack([torch.softmax(e @ leaf, 0) @ (e @ torch.tensor(v)) for e in places])
    torch.nn.functional.softplus(-torch.tensor(y) * logits).mean().backward()
    expected = -leaf.grad.numpy()

    a, b = E @ p, E @ v
    main, weight, ratio = np.zeros(dim), 0.0, 0.0
    for x, label, logit in zip(sequences, y, logits.detach().numpy(), strict=True):
        tokens, counts = np.unique(x, return_counts=True)
        q = counts * np.exp(a[tokens])
        q /= q.sum()
        slope = 1 / (1 + np.exp(label * logit))
        chosen = rng.integers(len(tokens))
        for k in np.flatnonzero(np.arange(len(tokens)) != chosen):
            pair = q[chosen] * q[k] * (b[tokens[chosen]] - b[tokens[k]])
            main += slope * pair * label * (E[tokens[chosen]] - E[tokens[k]]) / n
            weight += slope * abs(pair) / n
        ratio = max(ratio, (1 - q[chosen]) / q[chosen])
    diameter = max(np.linalg.norm(E[s] - E[r]) for s in range(n_tokens) for r in range(n_tokens))
    # Both sides are sums of a few dozen numbers of order one: 1e-12 is a thousand roundings.
    evidence.bound(np.linalg.norm(expected - main), diameter * ratio * weight + 1e-12)
