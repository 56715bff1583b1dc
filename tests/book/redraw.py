"""Draw states of a chapter's explorers anew: ``python redraw.py ORDER.json``, in a process of its own.

Runs the cells that the order names, as a notebook runs them, with `explore` replaced by a function that asks
the chapter's own ``draw``, ``alt`` and ``format`` about the ordered positions of the sliders.
Each state becomes a PNG and an entry of ``states.json`` beside the order.
"""

import json
import os
import sys
from pathlib import Path


def anew(folder, number, orders, draw, alt, parameters):
    """Draw the states in which the sliders stand at the ordered positions."""
    from tokensel.explorer import frame

    given = {name: p if isinstance(p, dict) else {"values": p} for name, p in parameters.items()}
    values = {name: [getattr(v, "item", lambda v=v: v)() for v in p["values"]] for name, p in given.items()}
    states = []
    for k, positions in enumerate(orders):
        if len(positions) != len(values):
            break  # the page has other sliders, as their counts tell
        state = {name: values[name][i] for name, i in zip(values, positions, strict=True)}
        texts = []
        for name, value in state.items():
            write = given[name].get("format")
            if write is None:
                texts.append(f"{value:g}".replace("-", "\u2212") if isinstance(value, float) else str(value))
            else:
                texts.append(write.format(value) if isinstance(write, str) else str(write(value)))
        picture = folder / f"{number}-{k}.png"
        picture.write_bytes(frame(draw(**state)))
        said = alt(**state) if callable(alt) else alt.format(**state)
        states.append({"state": state, "texts": texts, "alt": said, "picture": str(picture)})
    return {"counts": [len(v) for v in values.values()], "names": list(values), "states": states}


def main(path):
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    folder, found = Path(path).parent, []
    os.chdir(order["folder"])

    import matplotlib.pyplot as plt

    import tokensel

    def explore(draw, *, alt=None, **parameters):
        number = len(found)
        found.append(anew(folder, number, order["positions"][number], draw, alt, parameters))

    tokensel.explore = explore
    notebook = {"__name__": "__main__"}
    for cell in order["cells"]:
        exec(compile(cell["code"], cell["identity"], "exec"), notebook)
        plt.close("all")  # as a notebook does after each cell
    (folder / "states.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
