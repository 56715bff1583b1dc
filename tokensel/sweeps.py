"""`sweep`: one function at all combinations of its settings, on as many cores or machines as there are."""

import itertools
import math
from collections.abc import Iterable, Mapping, Set

from tokensel.arguments import whole_number
from tokensel.memory import require
from tokensel.progress import progress as progress_bar

_MOST_VALUES = 1_000_000  # of one setting: an iterator may have no end
_ROW = 500  # bytes that a run and its row take at least, as two dicts


def sweep(function, /, n_jobs=None, progress=None, **settings):
    """Call a function at every combination of settings; one row of a table for each.

    Parameters
    ----------
    function : callable
        Called with one value of every setting, by name: ``function(seed=0, dim=16)``. What it returns is put
        beside the settings: a dict with its own keys, anything else under ``"result"``. Randomness should
        come from a setting such as ``seed``, so that a row does not depend on where or when it was made.
    n_jobs : int, optional
        How many runs at a time, as joblib understands it: 2 for two processes, -1 for one on each core. None
        is 1, unless ``joblib.parallel_config`` says otherwise.
    progress : bool, optional
        Show a progress bar over the runs. None: only where somebody can watch it.
    **settings : list, range or array
        The values of each setting, under the name of the function's argument.

    Returns
    -------
    list of dict
        ``{setting: value, ..., **result}``, in the order of nested loops over the settings as they are
        written, the last one innermost. ``pandas.DataFrame`` takes it as it is.

    Raises
    ------
    TypeError
        The function cannot be called, or a setting is no list of values (write ``[16]`` for one).
    ValueError
        There is no setting, one has no values, or a result has a key that is also a setting.
    MemoryError
        There are more combinations than a table in memory can hold.
    Exception
        Whatever a run raises ends the sweep; a note on it says with which settings. One that cannot travel
        between processes becomes a RuntimeError.

    Notes
    -----
    In other processes the function may be one defined in a notebook. What it refers to travels with every
    run: let it load a large corpus itself. Any backend of joblib serves, those for clusters too::

        with joblib.parallel_config("dask"):
            rows = ts.sweep(function, n_jobs=-1, seed=range(100))

    Examples
    --------
    >>> import tokensel as ts
    >>> def selected(seed, dim):
    ...     corpus = ts.samplers.one_important_token(n_sequences=50, length=4, seed=seed)
    ...     model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim, seed=seed)
    ...     stepped = ts.one_step(model, corpus, step_size=40.0)
    ...     return {"accuracy": float((stepped.predict(corpus).numpy() == corpus.labels).mean())}
    >>> rows = ts.sweep(selected, seed=range(2), dim=[64, 256])
    >>> [(row["seed"], row["dim"]) for row in rows]
    [(0, 64), (0, 256), (1, 64), (1, 256)]
    >>> all(row["accuracy"] > 0.9 for row in rows)
    True
    """
    import joblib

    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}")
    if n_jobs is not None:
        whole_number("n_jobs", n_jobs, -math.inf)
    if not settings:
        raise ValueError("give at least one setting and its values, such as seed=range(5)")
    values = [_values(name, given) for name, given in settings.items()]
    n_runs = math.prod(map(len, values))
    require(_ROW * n_runs, f"the table of {n_runs:,} runs")
    runs = [dict(zip(settings, combination, strict=True)) for combination in itertools.product(*values)]

    class Watched(joblib.Parallel):
        def print_progress(self):
            bar.update(self.n_completed_tasks - bar.n)

    with progress_bar(len(runs), show=progress, description="sweep", unit="run") as bar:
        return Watched(n_jobs=n_jobs)(joblib.delayed(_run)(function, run) for run in runs)


def _values(name, given):
    ndim = getattr(given, "ndim", None)
    if isinstance(given, str | bytes | Mapping | Set) or not isinstance(given, Iterable) or ndim == 0:
        raise TypeError(f"{name} must be a list of values, got {given!r}: write {name}=[{given!r}] for one")
    # The numbers of an array become Python's, which print as numbers.
    values = given.tolist() if ndim == 1 else list(itertools.islice(given, _MOST_VALUES + 1))
    if len(values) > _MOST_VALUES:
        raise ValueError(f"{name} has more than {_MOST_VALUES:,} values: is it without end?")
    if not values:
        raise ValueError(f"{name} has no values, so that there is nothing to run")
    return values


def _run(function, settings):
    """A row of the table; an error says which."""
    with_settings = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    try:
        result = function(**settings)
    except Exception as error:
        error.add_note(f"in the run of the sweep with {with_settings}")
        _require_portable(error)
        raise
    if not isinstance(result, Mapping):
        result = {"result": result}
    if clash := settings.keys() & result.keys():
        raise ValueError(
            f"the result of the run with {with_settings} has the key {min(clash)!r}, which is a setting: "
            "give it another name"
        )
    return settings | dict(result)


def _require_portable(error):
    """Replace an error that cannot be made anew in another process, where it would end as a broken pool."""
    try:
        make, arguments, *_ = error.__reduce__()
        make(*arguments)
        portable = not isinstance(error, StopIteration)  # joblib's own loop would take it for its end
    except Exception:
        portable = False
    if not portable:
        replacement = RuntimeError(f"{type(error).__name__}: {error}")
        replacement.__notes__ = error.__notes__
        raise replacement from error
