r"""Training shared out over several processes, on one machine or on many: each has its share of the data.

The loss is a mean over sequences, and the embeddings enter it through the :math:`2S` scores and values alone.
So every process computes the gradients of its own sequences in scores and values, these are added up over all
processes, and each of them takes the same step on its own copy of the model. Beside the :math:`2S` numbers go
the loss and how many sequences are right (and how many held-out ones, if there is a validation corpus).
Nothing that is sent depends on the dimension :math:`d`; a gradient of :math:`E` would be :math:`Sd` numbers.
They are sent in the model's dtype: they were computed in it, and k processes add k - 1 roundings at most.
What is shared out is the work on sequences; every process moves all of :math:`E` itself. So processes pay
where there are many counts beside :math:`Sd`, or more of them than one machine can hold.

A process that ends, fails or falls silent ends all of them, within the timeout and with an error that says at
which step; a silent one is then ended by torchrun (half a minute later). Ctrl-C ends training in all of them
at the same step, and the script goes on.

The same sums give the same step. So the models of all processes stay equal to the last bit if these run alike
(machines of one kind, as many threads each), and equal up to rounding if not.

A script that trains on IMDB, ``train_imdb.py``::

    import numpy as np
    import safetensors.torch
    import tokensel as ts
    import torch

    with ts.distributed.processes(timeout=300) as group:
        reviews = ts.datasets.imdb()
        held_out = np.random.default_rng(0).permutation(len(reviews)) < len(reviews) // 10
        training = ts.distributed.shard(reviews[~held_out])
        validation = ts.distributed.shard(reviews[held_out])
        model = ts.AttentionClassifier.initialise(
            reviews.n_tokens, dim=256, seed=0, dtype=torch.float32, device=group.device
        )
        history = ts.distributed.fit(model, training, steps=200, validation=validation, patience=20)
        if group.rank == 0:
            print(history)
            safetensors.torch.save_file(model.state_dict(), "imdb.safetensors")

With two processes on this machine::

    python -m torch.distributed.run --nproc-per-node 2 train_imdb.py

With ``patience`` the model that is saved is that of the best step, which is printed last. Each process gets
one thread, as a note from torchrun says; if there are more cores than processes, set ``OMP_NUM_THREADS``.

On two machines with one process each, the first of which is called ``alpha``: this on the first, and on the
second the same with ``--node-rank 1``::

    python -m torch.distributed.run --nnodes 2 --node-rank 0 --nproc-per-node 1 \
        --master-addr alpha --master-port 29500 train_imdb.py

Each process reads the data itself, so every machine needs them. Sums are formed by gloo on CPUs, by NCCL on
GPUs (one a process). The code is the same; it has been run with gloo, never with NCCL.
"""

import contextlib
import datetime as dt
import hashlib
import importlib
import json
import mmap
import os
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed

from tokensel.arguments import generator, positive_number
from tokensel.callers import warn
from tokensel.corpus import Corpus, _plural
from tokensel.exchange import START, ProcessLost, Statement, exchange, heard, here, in_words, together
from tokensel.training import _check_pair, _check_validation
from tokensel.training_loop import PARAMETERS, Settings, Share, train_on

_STARTED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

# Of the counts of each process, so many are compared: of a large corpus in a file not all need be read.
_COMPARED = 2**20

_SETTINGS = ("steps", "optimizer", "learning_rate", "train", "batch_size", "cls_penalty", "patience")


class Group(NamedTuple):
    """Which of the processes this one is, as `processes` yields it.

    Attributes
    ----------
    rank : int
        Its number, from 0 to ``size`` - 1.
    size : int
        How many processes there are.
    device : torch.device
        Where its model goes: a GPU of its own, or the CPU.

    Examples
    --------
    That of :func:`tokensel.distributed.processes`.
    """

    rank: int
    size: int
    device: torch.device


@contextlib.contextmanager
def processes(timeout=300.0):
    """Join the processes that torchrun has started; leave them at the end of the ``with`` block.

    Parameters
    ----------
    timeout : float
        Seconds that a process waits for the others before it gives up, at the start and at every step. It has
        to cover what one of them does while the others wait: reading the data, say.

    Yields
    ------
    Group
        ``rank``, ``size`` and ``device`` of this process.

    Raises
    ------
    RuntimeError
        This process was not started by torchrun, is one of a group already, or has no GPU of its own.
    ProcessLost
        Not all of the processes have come within the timeout. (It is a RuntimeError too.)

    Examples
    --------
    A script, as torchrun starts it; :mod:`tokensel.distributed` has a whole one.

    >>> import tokensel as ts
    >>> with ts.distributed.processes():  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    RuntimeError: this process was not started as one of several (RANK, ... are not in its environment)...
    """
    timeout = dt.timedelta(seconds=positive_number("timeout", timeout))
    missing = [name for name in _STARTED if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"this process was not started as one of several ({', '.join(missing)} are not in its "
            f"environment): start the script with {START}"
        )
    if torch.distributed.is_initialized():
        raise RuntimeError("this process is in a group of processes already: enter processes() once")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device, backend = torch.device("cpu"), "gloo"
    if torch.cuda.is_available():
        device, backend = torch.device("cuda", int(os.environ["LOCAL_RANK"])), "cpu:gloo,cuda:nccl"
        if device.index >= torch.cuda.device_count():
            raise RuntimeError(
                f"there are {torch.cuda.device_count()} GPUs here, none for process {device.index} of this "
                'machine: start fewer processes, or set CUDA_VISIBLE_DEVICES="" to train on CPUs'
            )
        torch.cuda.set_device(device)
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")  # else a silent process aborts the others
    # torch.optim loads this when first used. Loaded while there is a group, it keeps gloo's threads alive
    # beyond the group's end, and these can abort the process as it exits (torch 2.13).
    importlib.import_module("torch._dynamo")
    try:
        try:
            torch.distributed.init_process_group(backend, timeout=timeout)
        except RuntimeError as error:
            raise ProcessLost(
                f"process {rank} of {size} has not met the others within {timeout.total_seconds():g} s: "
                f"start all of them, and see that each can reach {os.environ['MASTER_ADDR']}"
            ) from error
        yield Group(rank, size, device)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def shard(corpus):
    """Return this process's share of a corpus: as many consecutive sequences as the others get, or one more.

    Every process must call it with the same corpus. Counts that are mapped from a file stay there.

    Parameters
    ----------
    corpus : Corpus

    Returns
    -------
    Corpus
        Over the same vocabulary.

    Raises
    ------
    TypeError, ValueError
        In every process: ``corpus`` is no Corpus, differs between processes, or has fewer sequences than
        there are processes.
    RuntimeError
        There are no processes yet: call it within `processes`.
    ProcessLost
        Another process has ended, failed or fallen silent.

    Examples
    --------
    :mod:`tokensel.distributed` has a script to start with torchrun. Anywhere else:

    >>> import tokensel as ts
    >>> ts.distributed.shard(ts.Corpus([[1, 2]], labels=[1]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: ...
    """
    rank, size = here()
    with Statement("shard") as statement:
        if not isinstance(corpus, Corpus):
            raise TypeError(f"corpus must be a Corpus, got {type(corpus).__name__}")
        statement.equal["corpus"] = [*corpus.counts.shape, corpus.counts.nnz]
        statement.equal["vocabulary"] = _digest(json.dumps(corpus.vocabulary).encode())
    n = corpus.n_sequences
    if n < size:
        raise ValueError(
            f"a corpus of {_plural(n, 'sequence')} cannot be shared out to {size} processes: "
            f"start {n} at most"
        )
    first, end = rank * n // size, (rank + 1) * n // size
    counts = corpus.counts
    if not _mapped(counts.data):
        return corpus[first:end]  # a copy, so that the whole corpus need not stay
    start, stop = counts.indptr[first], counts.indptr[end]
    rows = type(counts)((end - first, corpus.n_tokens), dtype=counts.dtype)
    # Set one by one: given to the constructor, views of less than half of a larger array would be copied.
    rows.data, rows.indices = counts.data[start:stop], counts.indices[start:stop]
    rows.indptr = counts.indptr[first : end + 1] - start
    texts = None if corpus.texts is None else corpus.texts[first:end]
    part = slice(first, end)
    return Corpus._trusted(rows, corpus.labels[part], corpus.vocabulary, texts, corpus.lengths[part])


def fit(
    model,
    corpus,
    steps=200,
    optimizer="adam",
    learning_rate=0.01,
    train=("embeddings", "cls"),
    batch_size=None,
    validation=None,
    seed=0,
    progress=None,
    cls_penalty=0.0,
    patience=None,
    on_step=None,
):
    r"""Train the model in place on the sequences of all processes: :func:`tokensel.fit`, shared out.

    Every process must call it, with the same model and the same settings. All of them end with the same model
    and the same history: those of `tokensel.fit` on the shards joined in the order of the processes, up to
    rounding. That holds for minibatches too: all processes shuffle alike, and each takes of a minibatch
    (``batch_size`` sequences of all) what stands in its shard.

    Parameters
    ----------
    model : AttentionClassifier
        Equal in all processes.
    corpus : Corpus
        This process's sequences, from `shard`; or others in each process, over the same vocabulary. The
        whole corpus in each is not refused, but there is a warning: then a sequence counts once for every
        process, and none has less to do.
    steps, optimizer, learning_rate, train, batch_size
        As for `tokensel.fit`.
    validation : Corpus, optional
        This process's held-out sequences, from `shard`. The accuracy is that on the sequences of all.
    seed
        As for `tokensel.fit`.
    progress : bool, optional
        As for `tokensel.fit`, in process 0; the others never show a bar.
    cls_penalty, patience
        As for `tokensel.fit`.
    on_step : callable, optional
        As for `tokensel.fit`, called in every process.

    Returns
    -------
    History
        As of `tokensel.fit`.

    Raises
    ------
    TypeError, ValueError, FloatingPointError
        As of `tokensel.fit`; also a ValueError in every process if model, vocabulary or settings differ
        between them.
    ProcessLost
        Another process has ended, has failed (what with is said), or has not been heard of for the timeout of
        `processes`; the message names the step. The model is left as after the last step that was measured
        (with ``patience``, at the best step). Leave the ``with`` block, and start all processes again.
    RuntimeError
        There are no processes yet: call it within `processes`.

    Warns
    -----
    RuntimeWarning
        One of the processes was interrupted (Ctrl-C): all end together, with the step under way.
    UserWarning
        All processes hold the same sequences: has `shard` been forgotten?

    Examples
    --------
    :mod:`tokensel.distributed` has a script to start with torchrun. Anywhere else:

    >>> import tokensel as ts
    >>> corpus = ts.samplers.one_important_token(n_sequences=20, length=4, n_important=2, n_irrelevant=6)
    >>> model = ts.AttentionClassifier.initialise(corpus.n_tokens, dim=8, seed=0)
    >>> ts.distributed.fit(model, corpus)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: ...
    """
    rank, _ = here()
    with Statement("fit") as statement:
        _check_pair(model, corpus)
        _check_validation(validation, corpus)
        progress = progress if rank == 0 else False
        settings = Settings(
            steps,
            optimizer,
            learning_rate,
            train,
            batch_size,
            seed,
            progress,
            cls_penalty,
            patience,
            on_step,
        )
        parameters = [getattr(model, name).detach().cpu().numpy() for name in PARAMETERS]
        statement.equal |= {
            "vocabulary": [corpus.n_tokens, _digest(json.dumps(corpus.vocabulary).encode())],
            "dtype": str(model.embeddings.dtype),
            "device": model.embeddings.device.type,
            "model": [model.embeddings.shape[1], _digest(*parameters)],
            "validation": "None" if validation is None else "a corpus",
            **{name: repr(getattr(settings, name)) for name in _SETTINGS},
            "seed": _digest(json.dumps(generator(seed).bit_generator.state, default=str).encode()),
        }
        n_validation = 0 if validation is None else validation.n_sequences
        statement.own = [corpus.n_sequences, n_validation, _rows(corpus)]
    sizes, rows = zip(*((said[:2], said[2]) for said in statement.of_all), strict=True)
    if len(rows) > 1 and len(set(rows)) == 1:  # in all of them, so that none goes on alone if it is an error
        warn(
            f"all {len(rows)} processes hold the same {_plural(corpus.n_sequences, 'sequence')}, so none has "
            "less to do than one alone: give each its share, tokensel.distributed.shard(corpus)",
            UserWarning,
        )
    share = _Shard(corpus, validation, sizes, model.embeddings)
    try:
        history = train_on(share, model, settings)
    except ProcessLost:
        raise
    except BaseException as error:
        share.tell(error)
        raise
    share.finish()
    return history


class _Shard(Share):
    """The sequences of this process, among those of all."""

    shared = True

    def __init__(self, corpus, validation, sizes, embeddings):
        super().__init__(corpus, validation)
        rank, _ = here()
        self.first = sum(n for n, _ in sizes[:rank])
        self.n_sequences, self.n_validation = map(sum, zip(*sizes, strict=True))
        self.embeddings = embeddings
        self.step, self.where = 0, "at step 0"

    def add_up(self, numbers, interrupted):
        """Replace numbers by their sums over all processes; return whether one of these was interrupted.

        A process that has something to say beside its numbers sends NaN for how many of its sequences are
        right. Then all of them say what they have to say.
        """
        right = numbers[2 * self.corpus.n_tokens + 1]
        n_right = right.item()
        if interrupted:
            right.fill_(torch.nan)
        self._sum(numbers)
        if torch.isnan(right):
            right.fill_(sum(said["right"] for said in self._exchange({"right": n_right})))
            interrupted = True
        self.step += 1
        self.where = f"at step {self.step}"
        return interrupted

    def tell(self, error):
        """Tell the others, who are about to add up numbers, that this process has failed."""
        try:
            self._sum(self._numbers(torch.nan))
            self._exchange({"error": in_words(error)})
        except ProcessLost as lost:  # the error is what matters here
            error.add_note(f"(the other processes could not be told: {lost})")

    def finish(self):
        """Wait until all processes have come to the end, or one has told what it failed with."""
        self.where = "after the last step"
        self.add_up(self._numbers(0.0), False)

    def _numbers(self, number):
        size = 2 * self.corpus.n_tokens + 2 + (self.validation is not None)
        return torch.full((size,), number, dtype=self.embeddings.dtype, device=self.embeddings.device)

    def _sum(self, numbers):
        with together(self.where):
            torch.distributed.all_reduce(numbers)

    def _exchange(self, saying):
        said = exchange(saying, self.where)
        return said if "error" in saying else heard(said, self.where.replace("at step", "on the way to step"))


def _rows(corpus):
    """What tells the sequences of one process from those of another, at the cost of a few milliseconds."""
    counts = corpus.counts
    return _digest(corpus.labels, corpus.lengths, counts.indices[:_COMPARED], counts.data[:_COMPARED])


def _digest(*arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array)
    return digest.hexdigest()


def _mapped(array):
    """Whether the numbers stand in a file that is mapped into memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)
