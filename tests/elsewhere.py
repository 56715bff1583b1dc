"""A device that every machine has: numbers of the CPU that claim to stand elsewhere.

Torch takes them for those of a backend of its own. What goes wrong on a GPU goes wrong with them: an
operation on tensors of two devices, and NumPy asked for numbers that are not on the CPU. They are stricter
than CUDA, which forgives a CPU tensor of one number beside its own.

A backend cannot be taken back, so this is a process of its own: ``python elsewhere.py`` runs the checks of
``test_devices.py`` and prints, as JSON, what each one raised.
"""

import json
import sys
import traceback

import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("elsewhere")
# torch.tensor makes a tensor on the CPU and moves it, so that the move can be seen.
torch._C._set_only_lift_cpu_tensors(True)

ELSEWHERE, CPU = torch.device("elsewhere:0"), torch.device("cpu")
ATEN = torch.ops.aten


class Elsewhere(torch.Tensor):
    """A tensor whose numbers are those of ``here``. Torch takes it for dense, also where they are sparse."""

    @staticmethod
    def __new__(cls, here):
        return torch.Tensor._make_wrapper_subclass(cls, here.shape, dtype=here.dtype, device=ELSEWHERE)

    def __init__(self, here):
        self.here = here

    def __repr__(self):
        return f"Elsewhere({self.here})"

    def tolist(self):  # torch has it for its own devices, not for subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, operation, types, arguments=(), options=None):
        return perform(operation, arguments, options or {})


class Watch(TorchDispatchMode):
    """Operations without a tensor, such as torch.zeros, come here."""

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        return perform(operation, arguments, options or {})


def perform(operation, arguments, options):
    """Do it with the numbers on the CPU; what comes of them is elsewhere again."""
    leaves, form = tree.tree_flatten((arguments, options))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    elsewhere = [tensor for tensor in tensors if isinstance(tensor, Elsewhere)]
    moves = operation in (ATEN._to_copy.default, ATEN.copy_.default, ATEN._foreach_copy_.default)
    if 0 < len(elsewhere) < len(tensors) and not moves:
        devices = ", ".join(f"{tuple(t.shape)} on {t.device}" for t in tensors)
        raise RuntimeError(f"{operation} on tensors of two devices: {devices}")

    arguments, options = tree.tree_unflatten([_here(leaf) for leaf in leaves], form)
    result = operation(*arguments, **options)
    asked = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
    if asked[0].type != "elsewhere" if asked else not elsewhere:
        return result
    same = {id(tensor.here): tensor for tensor in elsewhere}  # what was changed in place stays itself
    return tree.tree_map_only(torch.Tensor, lambda t: same[id(t)] if id(t) in same else Elsewhere(t), result)


def _here(leaf):
    if isinstance(leaf, Elsewhere):
        return leaf.here
    return CPU if isinstance(leaf, torch.device) else leaf


if __name__ == "__main__":
    import test_devices

    outcomes = {}
    with Watch():
        for name in sys.argv[1:]:
            try:
                getattr(test_devices, name)("elsewhere")
                outcomes[name] = None
            except Exception:
                outcomes[name] = traceback.format_exc()
    print(json.dumps(outcomes))
