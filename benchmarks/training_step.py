"""One training step (the loss and the gradients of E, p and v) against what a reader would write instead."""

import sys

import numpy as np
import torch

import tokensel as ts
from benchmarks import measure

N_SEQUENCES, LENGTH, N_TOKENS, DIM = 5000, 230, 30000, 128
LOOKUPS = "embedding lookup, softmax @ embeddings", "embedding lookup, softmax @ values"


def main():
    """Print time and memory of every contender, and how far their float64 gradients differ."""
    torch.set_num_threads(measure.THREADS)
    steps = contenders(*problem(torch.float32))
    seconds = measure.interleaved(steps, rounds=5)
    # The short ones are disturbed more easily, and cheap to repeat.
    quick = [name for name in steps if name not in LOOKUPS]
    more = measure.interleaved({name: steps[name] for name in quick}, rounds=40)
    seconds |= {name: sorted(seconds[name] + more[name]) for name in quick}
    bytes_above = {
        name: int(measure.in_a_process_of_its_own("benchmarks.training_step", "--memory", name))
        for name in steps
    }
    # The quicker and the smaller of the two ways to write embedding lookup is what the others are held to.
    lookup, largest = min(seconds[name][0] for name in LOOKUPS), min(bytes_above[name] for name in LOOKUPS)
    print(
        f"A training step: {N_SEQUENCES:,} sequences of {LENGTH} tokens drawn from {N_TOKENS:,}, d = {DIM}, "
        f"float32, {measure.THREADS} threads.\n"
    )
    measure.table(
        ("", "best (ms)", "median (ms)", "times as fast", "memory above standing (MB)", "share of memory"),
        [
            (
                name,
                f"{1e3 * times[0]:.1f}",
                f"{1e3 * measure.median(times):.1f}",
                f"{lookup / times[0]:.1f}",
                f"{bytes_above[name] / 1e6:.1f}",
                f"{bytes_above[name] / largest:.3f}",
            )
            for name, times in seconds.items()
        ],
    )
    print("Largest difference of float64 gradients from embedding lookup, relative to the largest entry.\n")
    differences = compare()
    measure.table(
        ("", "E", "p", "v"), [(name, *(f"{x:.1e}" for x in row)) for name, row in differences.items()]
    )


def problem(dtype):
    """Return token ids (n, T), labels, the same as a corpus, and a model.

    Tokens are uniform over the vocabulary: real text repeats its tokens, which halves the non-zero counts.
    """
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, N_TOKENS, (N_SEQUENCES, LENGTH))
    labels = rng.choice([-1, 1], N_SEQUENCES)
    corpus = ts.Corpus.from_sequences(tokens, labels=labels, n_tokens=N_TOKENS)
    model = ts.AttentionClassifier.initialise(N_TOKENS, DIM, seed=0, dtype=dtype)
    return torch.tensor(tokens), torch.tensor(labels, dtype=dtype), corpus, model


def contenders(tokens, labels, corpus, model):
    """Return the ways to a step, each a function that leaves fresh gradients in the model."""

    def embeddings_weighted():
        rows = torch.nn.functional.embedding(tokens, model.embeddings)  # (n, T, d)
        attention = torch.softmax(rows @ model.cls, 1)
        return logistic((attention.unsqueeze(1) @ rows).squeeze(1) @ model.output)

    def values_weighted():
        rows = torch.nn.functional.embedding(tokens, model.embeddings)  # (n, T, d)
        attention = torch.softmax(rows @ model.cls, 1)
        return logistic((attention * (rows @ model.output)).sum(1))

    def gathered():
        scores, values = (model.embeddings @ model.cls)[tokens], (model.embeddings @ model.output)[tokens]
        return logistic((torch.softmax(scores, 1) * values).sum(1))

    def logistic(logits):
        return -torch.nn.functional.logsigmoid(labels * logits).mean()

    def step(loss):
        def run():
            model.zero_grad()
            loss().backward()

        return run

    return {
        LOOKUPS[0]: step(embeddings_weighted),
        LOOKUPS[1]: step(values_weighted),
        "gathered scores and values": step(gathered),
        "score space": step(lambda: model.loss(corpus)),
    }


def compare():
    """Return, for each contender, how far its gradients of E, p and v are from the first one's."""
    tokens, labels, corpus, model = problem(torch.float64)
    gradients = {}
    for name, run in contenders(tokens, labels, corpus, model).items():
        run()
        gradients[name] = [parameter.grad.clone() for parameter in model.parameters()]
    expected = gradients.pop(LOOKUPS[0])
    return {
        name: [float((g - e).abs().max() / e.abs().max()) for g, e in zip(found, expected, strict=True)]
        for name, found in gradients.items()
    }


def print_memory(name):
    """Print the memory that one step needs: inputs, model and the corpus's count tensors stand before it."""
    torch.set_num_threads(measure.THREADS)
    tokens, labels, corpus, model = problem(torch.float32)
    ts.score_space.logits(corpus, model.scores().detach(), model.values().detach())
    few = contenders(tokens[:20], labels[:20], corpus[:20], model)
    few[name]()  # threads and libraries start here
    model.zero_grad()
    print(measure.memory_above_standing(contenders(tokens, labels, corpus, model)[name]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print_memory(sys.argv[2])
    else:
        main()
