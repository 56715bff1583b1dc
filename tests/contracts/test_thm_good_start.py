"""Theorem thm-good-start: below the threshold attention finds the important tokens, at a known rate.

Oracles: attention, loss gap and guides in plain NumPy; the max-margin solution by non-negative least squares.
"""

import functools
import itertools

import numpy as np
import pytest
from scipy.optimize import brentq, nnls
from scipy.special import expit

import tokensel as ts
from tokensel import theory

ORIGIN = "paper's claim, our derivation"
SETTING = r"""Any $E$ and $v$; sequences of any lengths and counts, of one class or both. In each sequence
some tokens are important: each suits the label better than each other token. Some sequence
holds both kinds."""
HYPOTHESES = {
    "guide": r"A guide $u$ exists.",
    "threshold": r"The loss gap at the start is at most $\frac1n\min_i[\ell(m_i)-\ell(\bar m_i)]$.",
    "one": r"For the rate and the direction: one important token in each sequence.",
}
TOLERANCE = 1e-7  # of a step of the flow, in a gap and, relatively, in the time
FAR = 3000.0  # log time
NEAR = 300.0  # enough where only the bound is looked at: it is straight long before


class Start:
    """A start p(0) = R u + noise, R such that the gap is a given share of the threshold; plain NumPy."""

    def __init__(self, corpus, embeddings, important, guide, share, rng):
        self.corpus, self.embeddings, self.guide = corpus, embeddings, guide
        self.values = embeddings[:, 0]  # v is the first unit vector
        self.counts, self.n = corpus.counts.toarray(), len(corpus)
        self.important = important  # (n, S) bool, within the sequences
        signed = corpus.labels[:, None] * self.values
        stands = self.counts > 0
        self.best = np.where(stands, signed, -np.inf).max(axis=1)
        self.others = np.where(stands & ~important, signed, -np.inf).max(axis=1)
        assert (np.where(important, signed, np.inf).min(axis=1) > self.others).all()
        with np.errstate(over="ignore"):
            jump = np.logaddexp(0, -self.others) - np.logaddexp(0, -self.best)
        self.threshold = jump.min() / self.n
        self.noise = 0.3 * rng.normal(size=embeddings.shape[1])
        self.length = 0.0
        if (excess := lambda r: self.gap(r * guide + self.noise) / self.threshold - share)(0.0) > 0:
            far = 1.0
            while excess(far) > 0:
                far *= 2
            self.length = brentq(excess, 0, far)
        self.cls = self.length * guide + self.noise

    def attention(self, cls):
        scores = np.where(self.counts > 0, self.embeddings @ cls, -np.inf)
        weight = self.counts * np.exp(scores - scores.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    def gap(self, cls):
        """L - L_best, with l(m - x) - l(m) = log(1 + sigmoid(-m) (e^x - 1)), which does not cancel."""
        missing = (
            self.attention(cls) * (self.best[:, None] - self.corpus.labels[:, None] * self.values)
        ).sum(1)
        return np.log1p(expit(-self.best) * np.expm1(missing)).mean()

    def flow(self, until=FAR, at=None):
        model = ts.AttentionClassifier(self.embeddings, self.cls, np.eye(len(self.cls))[0])
        return ts.gradient_flow(model, self.corpus, None, until, at_log_time=at, tolerance=TOLERANCE)


def one_important(seed):
    """One important token a sequence; d + 1 random rows, affinely independent; others have unequal values."""
    rng = np.random.default_rng(seed)
    n_positive, n_negative, n_others = rng.integers(1, 3), rng.integers(0, 3), rng.integers(2, 5)
    k = n_positive + n_negative
    corpus = ts.samplers.one_distinct_important_token(
        int(rng.integers(k, k + 6)), int(n_positive), int(n_negative), int(n_others), longest=5, seed=rng
    )
    values = rng.uniform(-0.6, 0.6, k + n_others)
    values[:k] = rng.uniform(0.8, 2.5, k) * np.repeat([1, -1], [n_positive, n_negative])
    embeddings = np.column_stack(
        [values, np.eye(k + n_others)[:, 1:-1] + 0.3 * rng.normal(size=(len(values), k + n_others - 2))]
    )
    important = (corpus.counts.toarray() > 0) & (np.arange(len(values)) < k)
    assert (important.sum(axis=1) == 1).all()
    return Start(corpus, embeddings, important, shortest_guide(embeddings, k), rng.uniform(0.05, 0.98), rng)


def several_important(seed):
    """Up to three important tokens of different values in a sequence, other tokens of unequal values."""
    rng = np.random.default_rng(seed)
    sequences, labels = [[0, 1, 5, 6]], [1]
    for label in (1, -1, -1, 1):
        own = [0, 1, 2] if label == 1 else [3, 4]
        sequences.append(np.concatenate([rng.choice(own, rng.integers(1, 4)), rng.integers(5, 9, 3)]))
        labels.append(label)
    corpus = ts.Corpus.from_sequences(sequences, labels, 9)
    values = np.concatenate([rng.uniform(0.8, 2.5, 5) * [1, 1, 1, -1, -1], rng.uniform(-0.6, 0.6, 4)])
    embeddings = np.column_stack([values, rng.normal(size=(9, 8))])
    important = (corpus.counts.toarray() > 0) & (np.arange(9) < 5)
    # In the order of the values, so that far along it the best tokens win.
    heights = np.where(np.arange(9) < 5, 1 + np.abs(values), 0.0)
    guide = np.linalg.lstsq(embeddings - embeddings.mean(0), heights - heights.mean(), rcond=None)[0]
    np.testing.assert_allclose(np.ptp(embeddings @ guide - heights), 0, atol=1e-9)
    return Start(corpus, embeddings, important, guide, rng.uniform(0.3, 0.98), rng)


def shortest_guide(embeddings, k):
    """The shortest u with E u = 1 + c on the first k rows and c on the others."""
    level = (np.arange(len(embeddings)) < k) - k / len(embeddings)
    centred = embeddings - embeddings.mean(axis=0)
    guide = np.linalg.lstsq(centred, level, rcond=None)[0]
    np.testing.assert_allclose(centred @ guide, level, atol=1e-9)  # a guide, whatever the corpus
    return guide


def shortest_feasible(z):
    """min |p| with p.z_j >= 1, from the point of the hull nearest to the origin; the last line certifies it.

    Where pairs are dependent SciPy's least squares may stop too soon: then they are tried in another order.
    """
    scale = np.linalg.norm(z, axis=1).mean()  # so that both parts of the least squares weigh alike
    for seed in range(20):
        ordered = np.random.default_rng(seed).permutation(z) if seed else z
        weights, _ = nnls(
            np.vstack([ordered.T / scale, np.ones(len(z))]), np.append(np.zeros(z.shape[1]), 1.0)
        )
        nearest = weights @ ordered / weights.sum()
        p = nearest / (nearest @ nearest)
        if (z @ p).min() >= 1 - 1e-9:
            return p
    raise AssertionError("the oracle has failed")


@functools.cache
def followed(seed):
    start = one_important(seed)
    return start, start.flow(NEAR if seed % 3 else FAR)  # far for those of the direction


@pytest.mark.parametrize("seed", range(50))
def test_the_bound_holds_at_every_recorded_time(seed, evidence):
    start, path = followed(seed)
    gap = start.gap(start.cls)
    assert (
        gap
        < start.threshold
        == pytest.approx(theory.good_start_threshold(start.best, start.others), rel=1e-9)
    )
    theta = theory.good_start_attention(gap, start.best, start.others)
    bound = theory.log_loss_gap_bound(path.log_time, gap, theta, start.guide @ start.guide)
    excess = path.log_loss_gap - bound
    assert np.isfinite(excess).all()
    # Each step has an error in the time and in a gap; they may add up.
    assert excess.max() <= TOLERANCE * len(excess)
    # How tight: from the time where half of the gap is closed, as both sides begin at the same number.
    evidence.bound(np.exp(excess[path.log_loss_gap < np.log(gap / 2)].max()), 1.0)
    # Attention never falls below theta.
    for cls in path.cls[:: max(1, len(path.cls) // 40)]:
        mass = np.where(start.important, start.attention(cls), 0).sum(axis=1)
        assert mass.min() >= theta - TOLERANCE * len(excess)


@pytest.mark.parametrize("seed", range(0, 50, 3))
def test_direction_and_rate(seed, evidence):
    start, path = followed(seed)
    assert path.settled
    chosen = start.important.argmax(axis=1)
    np.testing.assert_array_equal(path.selection.tokens, chosen)
    pairs = path.selection.pairs
    p_hat = shortest_feasible(start.embeddings[pairs[:, 0]] - start.embeddings[pairs[:, 1]])
    # The start and the transient leave p less than a few dozen off the ray, where it is 3000 |p-hat| long.
    assert ts.cosine(path.cls[-1], p_hat) >= 0.999
    product = np.exp(path.log_time[-1] + path.log_loss_gap[-1])
    assert product == pytest.approx(p_hat @ p_hat, rel=1e-4)
    evidence.limit(product, p_hat @ p_hat)
    # So at late times the bound is loose by the factor theta^2 |p-hat|^2 / |u|^2, and by no more.
    gap = start.gap(start.cls)
    theta = theory.good_start_attention(gap, start.best, start.others)
    bound = theory.log_loss_gap_bound(path.log_time[-1], gap, theta, start.guide @ start.guide)
    expected = theta**2 * (p_hat @ p_hat) / (start.guide @ start.guide)
    assert np.exp(path.log_loss_gap[-1] - bound) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_several_important_tokens_in_a_sequence(seed, evidence):
    start = several_important(seed)
    assert start.important.sum(axis=1).max() > 1
    assert start.gap(start.cls) < start.threshold
    path = start.flow(at=[FAR])
    mass = np.where(start.important, start.attention(path.cls[-1]), 0).sum(axis=1)
    assert mass.min() > 1 - 1e-9
    evidence.holds()


# --- the threshold is sharp ---

OUTVOTED = ts.traps.outvoted(8)
E = OUTVOTED.model.embeddings.detach().numpy()
WANTED, MANY = (
    E[0] - E[2],
    E[1] - E[3],
)  # the pair of the one positive sequence, that of the eight negative ones


def trapped_start(far):
    """R p-hat of the wrong selection, and its loss gap."""
    cls = far * MANY / (MANY @ MANY)
    scores = np.array([WANTED @ cls] + [MANY @ cls] * 8)
    # l(q) - l(1) with q = sigmoid(scores), and 1 - q kept exactly
    gap = np.log1p(expit(-1.0) * np.expm1(expit(-scores))).mean()
    return cls, gap


@pytest.mark.drops("threshold")
@pytest.mark.parametrize("far", [5.0, 8.0, 16.0, 24.0])
def test_starts_that_exceed_the_threshold_by_as_little_as_one_likes(far):
    cls, gap = trapped_start(far)
    guide = np.linalg.lstsq(np.array([WANTED, MANY]), np.ones(2), rcond=None)[0]
    np.testing.assert_allclose([guide @ WANTED, guide @ MANY], 1)  # so all other hypotheses hold
    threshold = theory.good_start_threshold(np.ones(9), np.zeros(9))
    # To first order in e^-R the many miss 8 sigmoid(-1) e^-R / 9; the next order, e^{-1.875 R} / 18, is less.
    predicted = 8 * expit(-1.0) * np.exp(-far) / 9
    assert threshold < gap
    assert gap - threshold == pytest.approx(predicted, rel=2 * np.exp(-0.8 * far), abs=1e-15)
    model = ts.AttentionClassifier(OUTVOTED.model.embeddings, cls, OUTVOTED.model.output)
    path = ts.gradient_flow(model, OUTVOTED.corpus, None, 1000.0)
    np.testing.assert_array_equal(path.selection.tokens, OUTVOTED.selection.tokens)
    # The region of the proof in the chapter, w >= 5 and x <= -1.5 w, is never left.
    assert ((path.cls @ MANY) >= far - 1e-6).all()
    assert ((path.cls @ WANTED) <= -1.5 * (path.cls @ MANY)).all()


def test_the_excess_decreases_to_zero():
    gaps = np.array([trapped_start(far)[1] for far in np.arange(2.0, 30.0)])
    assert (np.diff(gaps) < 0).all()
    assert gaps[-1] - theory.good_start_threshold(np.ones(9), np.zeros(9)) < 1e-12


def test_the_region_of_the_proof_is_invariant():
    """On the border x = -1.5 w, w >= 5, the flow points inwards: the chapter's inequalities, on a grid."""
    w = np.linspace(5, 300, 4000)
    many, few = (
        expit(-expit(w)) * expit(w) * expit(-w),
        expit(-expit(-1.5 * w)) * expit(-1.5 * w) * expit(1.5 * w),
    )
    assert (few / many <= 2 / expit(-1.0) * np.exp(-w / 2)).all()
    assert (0.55 * few - 0.06 * 8 * many < 0).all()
    assert (0.16 * 8 * many - 0.3 * few > 0).all()


# --- the other hypotheses ---


@pytest.mark.drops("guide")
def test_two_classes_on_one_line_share_attention_for_ever():
    corpus = ts.Corpus.from_sequences([[0, 2], [1, 3]], [1, -1])
    model = ts.AttentionClassifier(np.array([[1.0], [-1.0], [0.0], [0.0]]), [0.0], [1.0])
    gap = np.logaddexp(0, -0.5) - np.logaddexp(0, -1)
    assert gap < theory.good_start_threshold(np.ones(2), np.zeros(2))
    path = ts.gradient_flow(model, corpus)
    assert path.status == "stationary"
    np.testing.assert_allclose(model.attention(corpus).to_dense().detach()[[0, 1], [0, 1]], 0.5)


@pytest.mark.drops("one")
def test_the_lesser_of_two_important_tokens_may_win():
    """Attention goes to important tokens, as it must, but the loss does not reach that of the best ones."""
    trap = ts.traps.shared_tokens()
    values, corpus = trap.model.values().detach().numpy(), trap.corpus
    important = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]], dtype=bool)
    guide = np.array([3.0, 2, 1, 0, 0])  # in the order of the values of each sequence, E = I
    signed = np.where(corpus.counts.toarray() > 0, values, -np.inf)
    best, others = signed.max(axis=1), np.where(important, -np.inf, signed).max(axis=1)
    for i in range(3):
        assert np.where(important[i], signed[i], np.inf).min() > others[i]
        for s, r in itertools.permutations(np.flatnonzero(corpus.counts.toarray()[i]), 2):
            assert guide[s] - guide[r] >= 1 or not (important[i, s] and not important[i, r])
            assert (values[s] - values[r]) * (guide[s] - guide[r]) >= 0
    gap = trap.model.loss(corpus).item() - np.logaddexp(0, -best).mean()
    assert gap < theory.good_start_threshold(best, others)
    path = ts.gradient_flow(trap.model, corpus, None, 1000.0)
    assert path.selection.tokens.tolist() == [1, 2, 2]  # important, all of them
    left = (np.logaddexp(0, -values[1]) - np.logaddexp(0, -values[0])) / 3
    theta = theory.good_start_attention(gap, best, others)
    assert theory.log_loss_gap_bound(1000.0, gap, theta, guide @ guide) < np.log(left)  # the bound fails
