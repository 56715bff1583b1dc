"""What several processes say to each other: sums, statements that must agree, and errors."""

import contextlib
import json
import time

import torch
import torch.distributed

START = "python -m torch.distributed.run --nproc-per-node 2 your_script.py"

# What to do where processes differ in it.
_REMEDIES = {
    "corpus": "shard() needs the same corpus in every process",
    "vocabulary": "make the shards of one corpus, with shard()",
    "seed": "the shuffling must be the same in every process",
    "model": "initialise it with the same seed, or load the same file, in every process",
}


class ProcessLost(RuntimeError):
    """Another process has ended, has failed, or has not been heard of for too long."""


class Statement:
    """What every process states before all go on together.

    Where one cannot, because of an error in the ``with`` block, or where they differ, all raise an error.
    """

    def __init__(self, call):
        self.equal = {"call": call}  # what must not differ
        self.own = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        where = f"in {self.equal['call']}"
        saying = {"error": in_words(error)} if error else {"equal": self.equal, "own": self.own}
        said = exchange(saying, where)
        if error:
            return
        heard(said, where)
        for rank, other in enumerate(said):
            for name, value in said[0]["equal"].items():
                if other["equal"].get(name) != value:
                    remedy = _REMEDIES.get(name, f"{value} in one, {other['equal'].get(name)} in the other")
                    raise ValueError(f"{name} differs between process 0 and process {rank}: {remedy}")
        self.of_all = [other["own"] for other in said]


def here():
    """Return the rank of this process and how many there are."""
    if not torch.distributed.is_initialized():
        raise RuntimeError(
            "there are no processes to share the work: call this within `with ts.distributed.processes():`, "
            f"in a script started with {START}"
        )
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


@contextlib.contextmanager
def together(where):
    """Say in the reader's words that another process did not take part in what needs all of them."""
    start = time.monotonic()
    try:
        yield
    except RuntimeError as error:
        rank, size = here()
        raise ProcessLost(
            f"process {rank} of {size} lost another one {where}, having waited "
            f"{time.monotonic() - start:.1f} s for it: that one has ended, hangs, or is slower than the "
            "timeout of processes() allows. What the others have printed says why. Start all of them again; "
            "if one is only slow, with a longer timeout"
        ) from error


def exchange(saying, where):
    """Let all processes say something; return what each said. As JSON: nothing that comes in is executed."""
    rank, size = here()
    text = torch.frombuffer(bytearray(json.dumps(saying).encode()), dtype=torch.uint8)
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    with together(where):
        torch.distributed.all_gather(lengths, torch.tensor([len(text)]))
        texts = [torch.zeros(int(max(lengths)), dtype=torch.uint8) for _ in range(size)]
        texts[rank][: len(text)] = text
        torch.distributed.all_gather(texts, texts[rank].clone())
    return [json.loads(bytes(text[:length].numpy())) for text, length in zip(texts, lengths, strict=True)]


def heard(said, where):
    """Return what all processes said, or raise if one of the others has failed."""
    for rank, saying in enumerate(said):
        if "error" in saying:
            raise ProcessLost(f"process {rank} of {len(said)} failed {where}, so all stop: {saying['error']}")
    return said


def in_words(error):
    return f"{type(error).__name__}: {error}"
