r"""`AttentionClassifier`: one softmax attention layer read out by a ⟨cls⟩ token."""

import numpy as np
import torch

from tokensel import memory, score_space
from tokensel.arguments import generator, whole_number
from tokensel.corpus import Corpus


class AttentionClassifier(torch.nn.Module):
    r"""A softmax attention layer whose query is the embedding of the ⟨cls⟩ token.

    .. math:: f(X) = \mathrm{softmax}(p^\top E_X^\top)\, E_X v

    Parameters
    ----------
    embeddings : (S, d) tensor or array
        :math:`E`, one row for each token.
    cls : (d,) tensor or array
        :math:`p`, the embedding of the ⟨cls⟩ token.
    output : (d,) tensor or array
        :math:`v`, the output vector; it need not have unit norm.

    Attributes
    ----------
    embeddings, cls, output : torch.nn.Parameter
        Copies of the arguments, in their dtype (float32 or float64; integers become float64) and on their
        device; arrays and lists, which have none, go where the embeddings are. All three can be trained;
        :func:`tokensel.fit` trains those it is told to.

    Raises
    ------
    ValueError
        If shapes do not match, an entry is not finite, or dtypes or devices differ.
    TypeError
        If an argument does not hold float32 or float64 numbers.

    Examples
    --------
    >>> import tokensel as ts
    >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
    >>> model = ts.AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[100, 0], output=[0, 1])
    >>> model(corpus).tolist()
    [1.0, -1.0]
    """

    def __init__(self, embeddings, cls, output):
        super().__init__()
        embeddings = score_space.real_tensor("embeddings", embeddings).detach().clone()
        cls, output = (
            score_space.real_tensor(name, vector, embeddings.device).detach().clone()
            for name, vector in (("cls", cls), ("output", output))
        )
        if embeddings.ndim != 2 or 0 in embeddings.shape:
            raise ValueError(
                "embeddings must have shape (tokens, dimension), one row for each token, "
                f"got shape {tuple(embeddings.shape)}"
            )
        dim = embeddings.shape[1]
        for name, vector in (("cls", cls), ("output", output)):
            if vector.shape != (dim,):
                raise ValueError(
                    f"{name} must have shape ({dim},), the dimension of the embeddings, "
                    f"got shape {tuple(vector.shape)}"
                )
            if (vector.dtype, vector.device) != (embeddings.dtype, embeddings.device):
                raise ValueError(
                    f"{name} must have the dtype and device of the embeddings, {embeddings.dtype} on "
                    f"{embeddings.device}, got {vector.dtype} on {vector.device}"
                )
            if not torch.isfinite(vector).all():
                raise ValueError(f"{name} must be finite, got {_first_not_finite(vector)}")
        # The extremes tell whether all are finite, without another array of the size of the embeddings.
        if not torch.isfinite(torch.stack(embeddings.aminmax())).all():
            token = int((~torch.isfinite(embeddings)).any(1).nonzero()[0])
            raise ValueError(
                f"embeddings must be finite, but the row of token {token} "
                f"holds {_first_not_finite(embeddings[token])}"
            )
        self.embeddings = torch.nn.Parameter(embeddings)
        self.cls = torch.nn.Parameter(cls)
        self.output = torch.nn.Parameter(output)

    @classmethod
    def initialise(cls, n_tokens, dim, seed=0, dtype=torch.float64, device="cpu", output="signs"):
        r"""Draw a model at random.

        Entries of :math:`E_0` and :math:`p_0` are independent :math:`N(0, 1/d)`; the output vector is
        random signs divided by :math:`\sqrt d`, so that it has unit norm.

        Parameters
        ----------
        n_tokens, dim : int
            :math:`S` and :math:`d`.
        seed : int or numpy.random.Generator
            The numbers are drawn in float64 and then rounded: one seed gives one model, whatever the dtype
            and device.
        dtype : torch.dtype
            float32 or float64.
        device : str or torch.device
        output : "signs" or (d,) array
            :math:`v`, if it is not to be drawn.

        Returns
        -------
        AttentionClassifier

        Raises
        ------
        TypeError
            If a size is not an int, ``seed`` neither an int nor a Generator, ``dtype`` another, or ``output``
            does not hold numbers.
        ValueError
            If a size is not positive, or ``output`` has another shape or is not finite.
        MemoryError
            If so many embeddings do not fit.

        Examples
        --------
        >>> import tokensel as ts
        >>> model = ts.AttentionClassifier.initialise(n_tokens=5, dim=16, seed=0)
        >>> model.output.norm().item()
        1.0
        """
        n_tokens, dim = whole_number("n_tokens", n_tokens), whole_number("dim", dim)
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        if isinstance(output, str) and output != "signs":
            raise ValueError(f'output must be "signs" or {dim} numbers, got {output!r}')
        rng = generator(seed)
        what = f"the embeddings of {n_tokens:,} tokens in {dim:,} dimensions"
        memory.require(n_tokens * dim * (8 + dtype.itemsize), what)  # drawn in float64, then rounded
        memory.require(n_tokens * dim * 2 * dtype.itemsize, what, device)  # theirs, and the model's copy
        embeddings = rng.standard_normal((n_tokens, dim))
        embeddings /= np.sqrt(dim)
        embeddings = torch.from_numpy(embeddings).to(device, dtype)
        query = torch.from_numpy(rng.standard_normal(dim) / np.sqrt(dim))
        if isinstance(output, str):
            output = rng.choice([-1.0, 1.0], dim) / np.sqrt(dim)
        vectors = (query, score_space.real_tensor("output", output))
        return cls(embeddings, *(vector.to(device, dtype) for vector in vectors))

    def with_cls(self, cls):
        r"""Return a copy that starts elsewhere: the same :math:`E` and :math:`v`, another :math:`p`.

        Parameters
        ----------
        cls : (d,) array or tensor
            :math:`p`; its numbers take the dtype and device of the embeddings.

        Returns
        -------
        AttentionClassifier
            A new model that shares no memory with this one.

        Raises
        ------
        TypeError, ValueError
            If ``cls`` does not hold d finite numbers.

        Examples
        --------
        >>> model = AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1])
        >>> model.with_cls([0, 3]).scores().tolist(), model.scores().tolist()
        ([3.0, -3.0, 0.0], [2.0, 2.0, 0.0])
        """
        cls = score_space.real_tensor("cls", cls).detach().to(self.embeddings)
        return AttentionClassifier(self.embeddings, cls, self.output)

    def scores(self):
        r"""Return the scores :math:`a = Ep`.

        Returns
        -------
        (S,) tensor
            How much attention a token asks for; only differences within a sequence count.

        Examples
        --------
        >>> AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1]).scores().tolist()
        [2.0, 2.0, 0.0]

        The two words with the largest scores:

        >>> import tokensel as ts
        >>> corpus = ts.Corpus.from_texts(["great film", "boring film"], labels=[+1, -1])
        >>> model = ts.AttentionClassifier([[1, -1], [0, 0], [2, 1]], cls=[2, 0], output=[0, 1])
        >>> scores = model.scores().detach().numpy()
        >>> [corpus.vocabulary[s] for s in (-scores).argsort()[:2]]
        ['great', 'boring']
        """
        return self.embeddings @ self.cls

    def values(self):
        r"""Return the values :math:`b = Ev`.

        Returns
        -------
        (S,) tensor
            The logit of a sequence that holds nothing but this token.

        Examples
        --------
        >>> AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1]).values().tolist()
        [1.0, -1.0, 0.0]

        As a NumPy array:

        >>> model = AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1])
        >>> model.values().detach().numpy()
        array([ 1., -1.,  0.])
        """
        return self.embeddings @ self.output

    def attention(self, corpus):
        r"""Return the attention :math:`q_{is} = C_{is}e^{a_s} / \sum_r C_{ir}e^{a_r}`.

        Parameters
        ----------
        corpus : Corpus
            With as many tokens as the model has embeddings.

        Returns
        -------
        (n, S) sparse CSR tensor
            See :func:`tokensel.score_space.attention`.

        Raises
        ------
        ValueError
            If the corpus has another number of tokens, or the scores are not finite.

        Examples
        --------
        >>> import tokensel as ts
        >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
        >>> model = ts.AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1])
        >>> model.attention(corpus).to_dense().detach().numpy().round(3)
        array([[0.881, 0.   , 0.119],
               [0.   , 0.881, 0.119]])
        """
        return score_space.attention(self._checked(corpus), self.scores())

    def forward(self, corpus):
        r"""Return the logits :math:`f_i = \sum_s q_{is} b_s`; `model(corpus)` is the same.

        Parameters
        ----------
        corpus : Corpus
            With as many tokens as the model has embeddings.

        Returns
        -------
        (n,) tensor
            Differentiable once with respect to embeddings, cls and output.

        Raises
        ------
        ValueError
            If the corpus has another number of tokens, or scores or values are not finite.

        Examples
        --------
        >>> import tokensel as ts
        >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
        >>> model = ts.AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1])
        >>> model(corpus).detach().numpy().round(3)
        array([ 0.881, -0.881])
        """
        return score_space.logits(self._checked(corpus), *self._scores_and_values())

    def loss(self, corpus):
        r"""Return the logistic loss :math:`L = \frac1n\sum_i\log(1+e^{-y_if_i})`.

        Parameters
        ----------
        corpus : Corpus
            With as many tokens as the model has embeddings.

        Returns
        -------
        scalar tensor
            Differentiable once with respect to embeddings, cls and output.

        Raises
        ------
        ValueError
            If the corpus has another number of tokens, or scores or values are not finite.

        Examples
        --------
        >>> import tokensel as ts
        >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
        >>> model = ts.AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1])
        >>> round(model.loss(corpus).item(), 3)
        0.347
        """
        return score_space.loss(self._checked(corpus), *self._scores_and_values())

    @torch.no_grad()
    def predict(self, corpus):
        r"""Return the predicted labels, +1 where :math:`f_i \ge 0` and -1 elsewhere.

        Parameters
        ----------
        corpus : Corpus
            With as many tokens as the model has embeddings.

        Returns
        -------
        (n,) int64 tensor

        Raises
        ------
        ValueError
            If the corpus has another number of tokens, or scores or values are not finite.

        Examples
        --------
        >>> import tokensel as ts
        >>> corpus = ts.Corpus.from_sequences([[0, 2], [1, 2]], labels=[+1, -1], n_tokens=3)
        >>> model = ts.AttentionClassifier([[1, 1], [1, -1], [0, 0]], cls=[2, 0], output=[0, 1])
        >>> model.predict(corpus).tolist()
        [1, -1]
        """
        return torch.where(self(corpus) >= 0, 1, -1)

    def extra_repr(self):
        n_tokens, dim = self.embeddings.shape
        return f"n_tokens={n_tokens}, dim={dim}, dtype={self.embeddings.dtype}"

    def _scores_and_values(self):
        # One product, so that the backward pass writes the gradient of E, of rank two, once. The vectors are
        # transposed rows, not columns: BLAS is several times as fast in that layout.
        return (self.embeddings @ torch.stack((self.cls, self.output)).t()).unbind(1)

    def _checked(self, corpus):
        if isinstance(corpus, Corpus) and corpus.n_tokens != len(self.embeddings):
            raise ValueError(
                f"the corpus has {corpus.n_tokens:,} tokens, but the model has embeddings for "
                f"{len(self.embeddings):,}: build the corpus with the vocabulary the model was made for"
            )
        return corpus


def _first_not_finite(numbers):
    return float(numbers[~torch.isfinite(numbers)][0])
