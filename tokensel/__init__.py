"""Attention that selects: one softmax attention layer, computed in score space.

The model is :math:`f(X) = \\mathrm{softmax}(p^\\top E_X^\\top)\\,E_X v`. Everything the package computes goes
through the scores :math:`a = Ep` and the values :math:`b = Ev` of the vocabulary, never through a tensor of
sequences times length times dimension.

Examples
--------
>>> import tokensel as ts
>>> corpus = ts.samplers.one_important_token(n_sequences=20, length=4, n_important=2, n_irrelevant=6, seed=0)
>>> model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=64, seed=0)
>>> stepped = ts.one_step(model, corpus, step_size=40.0)
>>> path = ts.gradient_flow(stepped, corpus, until_norm=400.0)
>>> solution = ts.max_margin(stepped.embeddings, path.selection, values=stepped.values())
>>> bool(ts.cosine(path.cls[-1], solution.cls) > 0.999)
True
"""

import importlib

from tokensel import datasets, samplers, score_space, theory, traps
from tokensel.corpus import Corpus
from tokensel.feasibility import feasible_subset
from tokensel.flow import gradient_flow
from tokensel.maxmargin import cosine, max_margin
from tokensel.model import AttentionClassifier
from tokensel.selection import InfeasibleSelection, Selection
from tokensel.training import fit, one_step

__version__ = "0.1.0"

__all__ = [
    "AttentionClassifier",
    "Corpus",
    "InfeasibleSelection",
    "Selection",
    "TokenSelector",
    "calibration",
    "check",
    "cosine",
    "datasets",
    "distributed",
    "explore",
    "failed_hypothesis",
    "feasible_subset",
    "fit",
    "gradient_flow",
    "highlight",
    "max_margin",
    "one_step",
    "one_step_error",
    "phases",
    "plotting",
    "reachability",
    "rounding",
    "samplers",
    "score_space",
    "sweep",
    "theory",
    "traps",
]

# Names that not every reader needs, or that need matplotlib, scikit-learn or ipywidgets: loaded when first
# used, so that `import tokensel` stays quick.
_LAZY = {
    "TokenSelector": "estimator",
    "calibration": None,
    "check": None,
    "distributed": None,
    "explore": "explorer",
    "failed_hypothesis": "limits",
    "highlight": "highlighting",
    "one_step_error": "first_step",
    "phases": None,
    "plotting": None,
    "reachability": "limits",
    "rounding": None,
    "sweep": "sweeps",
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'tokensel' has no attribute {name!r}")
    module = importlib.import_module(f"tokensel.{_LAZY[name] or name}")
    return module if _LAZY[name] is None else getattr(module, name)


def __dir__():
    return sorted(__all__)
