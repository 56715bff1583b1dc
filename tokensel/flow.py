r"""`gradient_flow`: the cls embedding followed to the end, beyond any time that a float64 can hold."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokensel.arguments import real_array, real_number, whole_number
from tokensel.forces import Forces, Loss, Rows
from tokensel.progress import progress as progress_bar
from tokensel.selection import Selection
from tokensel.training import _check_pair

# Where the forces on p cancel to this share of their size, or to one at which their rounding would move p by
# more than the tolerance, the flow has come to rest or nearly so ...
_BALANCE = 1e-9
# ... to rest if Newton's method sees a stationary point within so small a change of the scores. Where p
# diverges, it sees one at a distance of 1 or more, however small the force.
_NEAR = 1e-3
# Curvatures below this share of the largest are rounding.
_FLAT = 1e-12
# Attention has settled when no sequence gives more than this to tokens of other value than the selected one.
_SETTLED = 1e-6
# Until t = _SOON t_0 no score moves by more than 1e-8, and p moves along a straight line.
_SOON = 1e-3
# In more dimensions a Jacobian costs more than the steps it saves: LSODA then makes do with a diagonal.
_LARGEST_JACOBIAN = 2_000


@dataclass(frozen=True, eq=False, repr=False)
class FlowPath:
    r"""Points on the gradient flow of the cls embedding, in the order of time.

    Attributes
    ----------
    cls : ndarray, (k, d)
        :math:`p`; the first is the model's own.
    norm : ndarray, (k,)
        :math:`\lVert p\rVert`.
    log_time : ndarray, (k,)
        :math:`\log t`; the first is :math:`-\infty`.
    log_loss_gap : ndarray, (k,)
        :math:`\log(L-L_\sigma)`, with :math:`L_\sigma` the loss of all attention on ``selection``. NaN where
        the loss is below :math:`L_\sigma`, which happens only if attention does not settle there.
    status : str
        Why the path ends. ``"norm"`` or ``"log_time"``: it came as far as was asked. ``"stationary"``: p came
        to rest at a finite point. ``"precision"``: p moves on, but float64 cannot tell where, because scores
        are rounded more coarsely than the tolerance, or the forces that are left are lost in the rounding of
        others that cancel. ``"steps"``: ``max_steps`` were taken.
    settled : bool
        Whether at the end the attention of every sequence rests, but for one part in a million, on the
        selected token (or others of the same value). It may still leave: look far enough.
    selection : Selection
        The tokens of largest score at the end.
    promoted : bool
        Whether the model was float32. The flow then starts at its numbers and continues in float64.

    Examples
    --------
    That of :func:`tokensel.gradient_flow`.
    """

    cls: np.ndarray
    norm: np.ndarray
    log_time: np.ndarray
    log_loss_gap: np.ndarray
    status: str
    settled: bool
    selection: Selection
    promoted: bool

    def __repr__(self):
        return (
            f"FlowPath({len(self.norm):,} points to norm {self.norm[-1]:.6g} and "
            f"log time {self.log_time[-1]:.6g}; status {self.status!r}; "
            f"{'settled' if self.settled else 'not settled'}"
            f"{'; promoted from float32' if self.promoted else ''})"
        )


def gradient_flow(
    model,
    corpus,
    until_norm=400.0,
    until_log_time=None,
    *,
    at_norm=None,
    at_log_time=None,
    tolerance=1e-8,
    max_steps=20_000,
    progress=None,
):
    r"""Follow the gradient flow of the cls embedding; embeddings and output vector stay as they are.

    .. math:: \frac{dp}{dt}=-\nabla_pL,\qquad L=\frac1n\sum_i\log(1+e^{-y_if_i})

    The norm of p grows like the logarithm of time. So the variable is the length of the path, along which p
    moves at unit speed, and time is kept as :math:`\log t`: norms of 1000 and times of :math:`e^{900}` are
    ordinary.

    Parameters
    ----------
    model : AttentionClassifier
        Where the flow starts. It is left as it is; float32 is promoted to float64, and the path says so.
    corpus : Corpus
        n sequences over the model's S tokens.
    until_norm : float or None, default 400
        Stop where :math:`\lVert p\rVert` reaches this, which must exceed the norm at the start.
    until_log_time : float, optional
        Stop where :math:`\log t` reaches this.
    at_norm, at_log_time : array_like, optional
        Record the path where :math:`\lVert p\rVert` and :math:`\log t` first reach these numbers, and at its
        start and end; numbers beyond the start or end are left out. By default every step is recorded.
    tolerance : float, default 1e-8
        Error of one step, from 1e-11 to 1e-3: the most by which the error of a coordinate of p changes a gap
        between two scores, or a logit, and the relative error of the time once p has begun to move.
    max_steps : int, default 20000
        Stop after so many steps. A thousand are many.
    progress : bool, optional
        Show a progress bar. None: only where somebody can watch it.

    Returns
    -------
    FlowPath

    Raises
    ------
    TypeError, ValueError
        An argument is not what it must be; the model is not finite, or so large that its scores or values
        overflow, or that float64 rounds its scores more coarsely than the tolerance.
    RuntimeError
        The integrator gave up for a reason we do not know.

    Notes
    -----
    The gradient is computed up to an exact factor :math:`e^M`, so that nothing underflows, and the force on a
    selected token as :math:`q_\sigma\sum_{s\ne\sigma}q_s(b_\sigma-b_s)`, without a difference of nearly equal
    numbers (chapter "Gradient flow"). Values closer than the rounding of :math:`E_s\cdot v` count as equal.
    LSODA [1]_ chooses steps and orders, and turns implicit where fast and slow pairs make the flow stiff.

    References
    ----------
    .. [1] L. Petzold, "Automatic selection of methods for solving stiff and nonstiff systems of ordinary
       differential equations", SIAM J. Sci. Stat. Comput. 4 (1983) 136-148.

    Examples
    --------
    Token 0 is selected against token 1: p runs off along :math:`\hat p=(1/2,-1/2)`, and
    :math:`t(L-L_\sigma)` tends to :math:`\lVert\hat p\rVert^2=1/2`.

    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 1]], labels=[+1])
    >>> model = ts.AttentionClassifier(np.eye(2), cls=[0, 0], output=[1, 0])
    >>> path = gradient_flow(model, corpus, until_norm=1000.0)
    >>> path.cls[-1].round(2), path.selection.tokens
    (array([ 707.11, -707.11]), array([0]))
    >>> np.exp(path.log_time[-1] + path.log_loss_gap[-1]).round(6)
    np.float64(0.5)
    """
    _check_pair(model, corpus)
    tolerance = real_number("tolerance", tolerance)
    if not 1e-11 <= tolerance <= 1e-3:
        raise ValueError(f"tolerance must be from 1e-11 to 1e-3, got {tolerance}")
    max_steps = whole_number("max_steps", max_steps, 1)
    flow = _Flow(model, corpus, tolerance)
    ends = _ends(flow, until_norm, until_log_time)
    norms, times = sorted(_numbers("at_norm", at_norm)), sorted(_numbers("at_log_time", at_log_time))
    soon = [time for time in times if flow.to_stretch(time) < _SOON]
    stops = [(flow.norm, norm) for norm in norms if norm > flow.norm(flow.start)]
    stops += [(flow.stretch, flow.to_stretch(time)) for time in times[len(soon) :]]
    points, status = [flow.point(flow.start)], flow.point(flow.start).obstacle
    if not status:
        if "log_time" in ends and ends["log_time"][1] < _SOON:
            soon, status = [time for time in soon if time < until_log_time] + [until_log_time], "log_time"
        points += [flow.soon(time) for time in soon]
    if not status:
        every_step = at_norm is None and at_log_time is None
        status = _follow(flow, points, ends, stops, every_step, max_steps, progress)
    return flow.path(points, status, corpus)


def _follow(flow, points, ends, stops, every_step, max_steps, progress):
    """Integrate to the first of the ends, adding to the points. Return why there are no more."""
    from scipy.integrate import LSODA

    solver = LSODA(
        flow.velocity,
        0.0,
        flow.start,
        1e100,  # no bound of its own
        first_step=np.sqrt(flow.tolerance) / flow.reach,  # of order 1, so that its error is the square
        rtol=1e-13,  # what float64 can hold of a large state
        atol=np.append(np.full(flow.dim, flow.tolerance / flow.reach), flow.tolerance / 10),
        **({"jac": flow.jacobian} if flow.dim <= _LARGEST_JACOBIAN else {"lband": 0, "uband": 0}),
    )
    point = status = None
    with progress_bar(100, show=progress, description="gradient flow", unit="%") as bar:
        for _ in range(max_steps):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="lsoda:")  # the status says as much
                message = solver.step()
            if solver.status == "failed":
                if flow.balance > 1e-6:
                    raise RuntimeError(f"the integrator gave up at norm {flow.norm(solver.y):.6g}: {message}")
                status = "precision"  # the direction is rounding noise
                break
            state, dense = solver.y, solver.dense_output()
            reached = [(_where(dense, *end), name) for name, end in ends.items() if end[0](state) >= end[1]]
            last, status = min(reached, default=(solver.t, None))
            passed = sorted(_where(dense, *stop) for stop in stops if stop[0](state) >= stop[1])
            stops = [stop for stop in stops if stop[0](state) < stop[1]]
            points += [flow.point(dense(s)) for s in passed if s < last]
            point = flow.point(dense(last) if reached else state)
            status = status or point.obstacle
            if status:
                break
            if every_step:
                points.append(point)
            done = max((of(state) - of(flow.start)) / (goal - of(flow.start)) for of, goal in ends.values())
            bar.update(max(0, int(100 * done) - bar.n))
        bar.update(100 - bar.n)  # wherever it ended, it is done: a bar that stops short looks like a failure
    if point is not None and point is not points[-1]:
        points.append(point)
    return status or "steps"


def _where(dense, measure, target):
    """Length of path at which the measure of the state reaches the target in the step just taken."""
    from scipy.optimize import brentq

    def beyond(s):
        return measure(dense(s)) - target

    # Rounding may put the target just outside of the step.
    if beyond(dense.t_old) >= 0:
        return dense.t_old
    return brentq(beyond, dense.t_old, dense.t) if beyond(dense.t) > 0 else dense.t


class _Point(NamedTuple):
    """What is kept of the flow at a state."""

    state: np.ndarray
    log_time: float
    obstacle: str | None  # why it cannot go on from there
    loss: Loss


class _Flow:
    r"""The flow as an equation for a state :math:`(x,r)` that depends on the length of path.

    :math:`p=p(0)+Qx`, the columns of Q an orthonormal basis where there are fewer tokens than dimensions,
    else those of the identity; :math:`r=\log(1+t/t_0)`, the "stretch", with :math:`t_0` so short that p
    hardly moves in it.
    """

    def __init__(self, model, corpus, tolerance):
        self.promoted = model.embeddings.dtype.itemsize < 8
        embeddings, self.cls, output = (
            _finite(name, real_array(name, getattr(model, name))) for name in ("embeddings", "cls", "output")
        )
        counts = corpus.counts
        self.tokens = np.flatnonzero(corpus.document_frequency)
        if len(self.tokens) < corpus.n_tokens:
            counts, embeddings = counts[:, self.tokens], embeddings[self.tokens]
        with np.errstate(over="ignore", invalid="ignore"):
            self.start_scores, values = embeddings @ self.cls, embeddings @ output
            spread = 2 * np.linalg.norm(embeddings - embeddings.mean(0), axis=1).max()
            longest = np.linalg.norm(embeddings, axis=1).max() * np.linalg.norm(output)
        for name, numbers in (("scores", self.start_scores), ("values", values), ("embeddings", spread)):
            if not np.isfinite(numbers).all():
                raise ValueError(f"the {name} of the model overflow float64: make its vectors shorter")
        self.tolerance, self.late = tolerance, False
        self.spread = spread or 1.0  # no two embeddings are further apart
        # The most by which a unit of length changes a gap between two scores, or a logit: the latter by the
        # covariance of values and scores, at most a quarter of the product of their ranges.
        self.reach = self.spread * max(1.0, np.ptp(values) / 4)
        self.balanced = max(_BALANCE, np.finfo(float).eps / tolerance / 20)
        if self._is_coarse(self.start_scores):
            raise ValueError(
                f"scores as large as {np.abs(self.start_scores).max():.3g} are rounded more coarsely than "
                f"the tolerance {tolerance:g}: start from a shorter cls embedding, or raise the tolerance"
            )
        self.forces = Forces(counts, corpus.labels, _merged(values, 4 * np.finfo(float).eps * longest))
        self.rows, self.basis, self.within, self.beyond = embeddings, None, self.cls, 0.0
        if embeddings.shape[1] > len(self.tokens):
            self.basis, triangle = np.linalg.qr(embeddings.T)
            self.rows, self.within = np.ascontiguousarray(triangle.T), self.cls @ self.basis
            self.beyond = np.linalg.norm(self.cls - self.basis @ self.within)
        self.dim = self.rows.shape[1]
        self.start = np.zeros(self.dim + 1)
        _, _, speed, shift, _ = self._motion(self.start_scores)
        self.log_unit = shift - np.log(speed * self.reach) - 12.0 if speed > 0 else 0.0

    def scores(self, state):
        return self.start_scores + self.rows @ state[:-1]

    def norm(self, state):
        return np.hypot(np.linalg.norm(self.within + state[:-1]), self.beyond)

    def stretch(self, state):
        return state[-1]

    def to_stretch(self, log_time):
        return np.logaddexp(0.0, log_time - self.log_unit)

    def log_time(self, stretch):
        with np.errstate(divide="ignore"):
            return stretch + np.log(-np.expm1(-stretch)) + self.log_unit

    def velocity(self, _, state):
        force, _, speed, shift, _ = self._motion(self.scores(state))
        return np.append(force / speed, self._rate(state, speed, shift))

    def jacobian(self, _, state):
        scores = self.scores(state)
        force, size, speed, shift, _ = self._motion(scores, exact=True)
        slope = self.forces.slope(scores, self.rows)
        change = force @ slope / max(np.linalg.norm(force), self.tolerance * size) / speed  # of the log speed
        rate = self._rate(state, speed, shift)
        jacobian = np.zeros((self.dim + 1, self.dim + 1))
        jacobian[:-1, :-1] = slope / speed - np.outer(force / speed, change)
        jacobian[-1, :-1] = -rate * change
        jacobian[-1, -1] = -rate
        return jacobian

    def point(self, state, exact=False):
        scores = self.scores(state)
        force, _, _, _, loss = self._motion(scores, exact)
        if isinstance(loss, Rows):
            loss = self.forces.loss(loss)
        obstacle = None
        if self._is_coarse(scores):
            obstacle = "precision"
        elif not force.any():
            obstacle = "stationary"
        elif self.balance < self.balanced:
            obstacle = self._rest(scores)
        return _Point(state, self.log_time(state[-1]), obstacle, loss)

    def soon(self, log_time):
        """The point at a time so short that the force does not change in it."""
        force, _, _, shift, _ = self._motion(self.start_scores)
        state = np.append(force * np.exp(log_time - shift), self.to_stretch(log_time))
        return self.point(state)._replace(log_time=log_time)

    def _rest(self, scores):
        """What balanced forces mean: a stationary point, the end of what float64 can tell, or a saddle."""
        force = self._motion(scores, exact=True)[0]
        curvature, directions = np.linalg.eigh(self.forces.slope(scores, self.rows))
        steep = np.abs(curvature) > _FLAT * np.abs(curvature).max()
        if curvature[steep].max(initial=0.0) > 0:  # p will leave again
            return None
        step = (directions.T @ force)[steep] / curvature[steep]
        return "stationary" if np.linalg.norm(step) * self.reach < _NEAR else "precision"

    def path(self, points, status, corpus):
        states = np.array([point.state for point in points])
        losses = [point.loss for point in points[:-1]] + [self.point(states[-1], exact=True).loss]
        gap, shift, limit, outside = np.array(losses).T
        above = limit - limit[-1]  # what each gap is measured from, above the last
        with np.errstate(divide="ignore", invalid="ignore"):
            log_gap = np.where(above == 0, np.log(gap) - shift, np.log(gap * np.exp(-shift) + above))
        cls = self.cls + (states[:, :-1] if self.basis is None else states[:, :-1] @ self.basis.T)
        scores = np.zeros(corpus.n_tokens)
        scores[self.tokens] = self.scores(states[-1])
        return FlowPath(
            cls=cls,
            norm=np.linalg.norm(cls, axis=1),
            # Errors within the tolerance do not make time run backwards.
            log_time=np.maximum.accumulate([point.log_time for point in points]),
            log_loss_gap=log_gap,
            status=status,
            settled=bool(outside[-1] <= _SETTLED),
            selection=Selection.of(corpus, scores),
            promoted=self.promoted,
        )

    def _motion(self, scores, exact=False):
        r"""How p moves: :math:`-e^M\nabla_pL` in the basis, a bound on its norm, a speed, M, and the loss."""
        push, loss = (None, None) if exact or self.late else self.forces.plain(scores)
        if push is None:
            self.late = True
            push, size, shift, loss = self.forces(scores)
        else:
            size, shift = np.abs(push).sum(), 0.0
        force, size = push @ self.rows, size * self.spread
        norm = np.linalg.norm(force)
        self.balance = norm / size if size > 0 else 0.0
        # Any positive speed follows the same path. That of the force alone would jump where the flow comes to
        # rest; with this one nothing changes within a length of the order of the tolerance.
        return force, size, norm + self.tolerance * size, shift, loss

    def _rate(self, state, speed, shift):
        """Of the stretch, a unit of length."""
        # Far from the path, where LSODA may try a step that is too long, the rate need only be very large.
        return np.exp(min(shift - self.log_unit - state[-1] - np.log(speed), 40.0))

    def _is_coarse(self, scores):
        return np.finfo(float).eps * np.abs(scores).max() > self.tolerance


def _merged(values, rounding):
    """Values, with one number for those that only rounding tells apart."""
    order = np.argsort(values, kind="stable")
    group = np.cumsum(np.diff(values[order], prepend=values[order[0]]) > rounding)
    merged = np.empty_like(values)
    merged[order] = values[order][np.searchsorted(group, group)]
    return merged


def _ends(flow, until_norm, until_log_time):
    """Where the path is to stop: a measure of the state and its goal, by the status that says so."""
    ends = {}
    if until_norm is not None:
        until_norm, norm = real_number("until_norm", until_norm), flow.norm(flow.start)
        if until_norm <= norm:
            raise ValueError(
                f"until_norm must exceed {norm:.6g}, the norm of the cls embedding that the flow starts "
                f"from; got {until_norm:g}"
            )
        ends["norm"] = (flow.norm, until_norm)
    if until_log_time is not None:
        ends["log_time"] = (flow.stretch, flow.to_stretch(real_number("until_log_time", until_log_time)))
    if not ends:
        raise ValueError("give until_norm, until_log_time or both: the path may have no end of its own")
    return ends


def _numbers(name, numbers):
    if numbers is None:
        return []
    numbers = real_array(name, numbers)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be a list of finite numbers, got {numbers}")
    return numbers


def _finite(name, numbers):
    wrong = np.argwhere(~np.isfinite(numbers))
    if wrong.size:
        place = tuple(wrong[0].tolist())
        raise ValueError(f"the model's {name} must be finite, but its entry {place} is {numbers[place]}")
    return numbers
