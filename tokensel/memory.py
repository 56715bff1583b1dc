"""Memory asked for before it is taken: what will not fit is refused with the bytes it would need."""

import os
from decimal import Decimal
from pathlib import Path

import torch

from tokensel.arguments import whole_number

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def require(n_bytes, what, device="cpu"):
    """Refuse work whose arrays will not fit, before any of them is made.

    Parameters
    ----------
    n_bytes : int
        What the arrays will take together, over and above what is in memory already.
    what : str
        Whose arrays they are, in the reader's words, as the subject of the error.
    device : str or torch.device
        Where they will stand.

    Raises
    ------
    MemoryError
        There is less. The message names what, the bytes it would need and the bytes there are. Where nobody
        can tell how many there are, nothing is refused.

    Examples
    --------
    >>> require(1_000, "a small array")
    >>> require(10**18, "the embeddings of 10,000,000 tokens")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    MemoryError: the embeddings of 10,000,000 tokens: that would need 1.0 EB (1,000,...
    """
    n_bytes = whole_number("n_bytes", n_bytes, 0)
    there = available(device)
    if there is not None and n_bytes > there:
        raise MemoryError(
            f"{what}: that would need {readable(n_bytes)} ({n_bytes:,} bytes) of memory on {device}, "
            f"but there are {readable(there)} ({there:,} bytes)"
        )


def available(device="cpu"):
    """How many bytes can still be allocated on a device; None where nobody can tell.

    On the CPU it is the least of what Linux calls available (free, or held by files that can be read again),
    of what is left of the limits on the process's control groups (containers, batch jobs), and of what is
    left of its address space (``ulimit -v``). On CUDA it is what the device has free and what torch has put
    aside. Elsewhere it is not known.

    Parameters
    ----------
    device : str or torch.device

    Returns
    -------
    int or None

    Raises
    ------
    ValueError
        There is no such device.

    Examples
    --------
    >>> available("meta") is None  # a device on which nothing is ever stored
    True
    """
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device {device!r} is none that torch knows: {error}") from None
    if device.type == "cpu":
        rooms = [_system(), *_control_groups(), _address_space()]
        return min((max(room, 0) for room in rooms if room is not None), default=None)
    if device.type == "cuda" and torch.cuda.is_available():
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    return None


def readable(n_bytes):
    """A number of bytes in the largest unit of which there is one.

    Examples
    --------
    >>> readable(999), readable(1_500_000), readable(12_345_678_901)
    ('999 bytes', '1.5 MB', '12.3 GB')
    """
    unit = min((len(str(int(n_bytes))) - 1) // 3, len(_UNITS) - 1)
    return f"{Decimal(int(n_bytes)) / 1000**unit:,.{min(unit, 1)}f} {_UNITS[unit]}"


def _system():
    lines = _read(_PROC / "meminfo").splitlines()
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024 if kilobytes else None


def _control_groups():
    """What is left of each limit on the process's own group and on those above it, of either version."""
    for line in _read(_PROC / "self" / "cgroup").splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers == "":
            root, limit, usage, prefix = _CGROUPS, "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):
            root, prefix = _CGROUPS / "memory", "total_"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the own group may be named as seen from outside: then only the root is there.
        own = root / own.lstrip("/")
        for group in (own, *own.parents):
            bound, used = _read(group / limit).strip(), _read(group / usage).strip()
            if bound.isdigit() and used.isdigit():  # "max" is none
                # As in MemAvailable, files kept in memory give way.
                stat = dict(line.split() for line in _read(group / "memory.stat").splitlines())
                files = sum(int(stat.get(f"{prefix}{part}_file", 0)) for part in ("active", "inactive"))
                yield int(bound) - int(used) + files
            if group == root:
                break


def _address_space():
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(_PROC / "self" / "statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


def _read(path):
    """The text of a file of the kernel's; empty where it cannot be read, for then nothing is known."""
    try:
        return path.read_text()
    except OSError:
        return ""
