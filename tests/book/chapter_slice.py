"""The cells of a chapter that one of its cells needs: those that bind what it reads, or change it.

A cell is left out only if it neither binds nor visibly changes a name that is needed: no assignment into it,
no method of it called for its effect, no call for its effect that is given it. What was left out by mistake
fails with a NameError when the cells are run.
"""

import ast
import builtins
import symtable
from typing import NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

# What changes a list, dict, set or array in place, also where the call's value is used.
CHANGES = {
    *("append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update", "add"),
    *("setdefault", "discard", "shuffle", "fill", "put", "partition", "resize", "step", "backward"),
}
CHANGES |= {"fit", "load_state_dict", "copyto", "place", "putmask", "setattr", "delattr"}


SHOWS = {"Markdown", "display", "print"}
SURE = (ast.Assign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)  # bind when they are run


class Cell(NamedTuple):
    """The notebook's names that a cell reads before it surely binds them, binds, and changes."""

    identity: str
    code: str
    reads: frozenset
    binds: frozenset
    changes: frozenset


def names(statement):
    """The names of the notebook that one statement reads and binds, its functions' bodies included."""
    reads, binds = set(), set()
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    for symbol in table.get_symbols():
        if symbol.is_referenced():
            reads.add(symbol.get_name())
        if symbol.is_assigned() or symbol.is_imported():
            binds.add(symbol.get_name())
    inner = table.get_children()
    while inner:
        scope = inner.pop()
        inner += scope.get_children()
        for symbol in scope.get_symbols():
            if symbol.is_global():
                reads.add(symbol.get_name())
                if symbol.is_assigned():
                    binds.add(symbol.get_name())
    return reads, binds


def base(node):
    """The name that a chain such as ``a.b[0].c`` starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def changes(tree):
    """The names whose objects the code visibly changes, or hands to a call that it makes for its effect."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            found.add(base(node))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.add(base(node.value.func))
            # The methods of an axis draw what they are given, and so do the functions that show text.
            if isinstance(node.value.func, ast.Name) and node.value.func.id not in SHOWS:
                found |= {n.id for a in node.value.args for n in ast.walk(a) if isinstance(n, ast.Name)}
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else base(node.func)
            if called in CHANGES:
                given = [node.func, *node.args, *(k.value for k in node.keywords)]
                found |= {n.id for part in given for n in ast.walk(part) if isinstance(n, ast.Name)}
    return found - {None, *dir(builtins)}


def follow(statements, bound):
    """What statements read before it is surely bound, what they may bind, and what surely is bound after."""
    reads, binds, bound = set(), set(), set(bound)
    for statement in statements:
        blocks, certain = [], set()
        if isinstance(statement, ast.For):
            targets = {one.id for one in ast.walk(statement.target) if isinstance(one, ast.Name)}
            heads, blocks = [statement.iter], [(statement.body, targets), (statement.orelse, set())]
            binds |= targets
        elif isinstance(statement, (ast.If, ast.While)):
            heads, blocks = [statement.test], [(statement.body, set()), (statement.orelse, set())]
        else:
            heads = [statement]
            if isinstance(statement, SURE):
                certain = names(statement)[1]
        for head in heads:
            here, more = names(head)
            reads |= here - bound
            binds |= more
        for block, before in blocks:
            here, more, _ = follow(block, bound | before)
            reads |= here
            binds |= more
        bound |= certain
    return reads, binds, bound


def read(cell):
    code = TransformerManager().transform_cell(cell.source)
    tree = ast.parse(code)
    reads, binds, _ = follow(tree.body, set())
    return Cell(cell.id, code, frozenset(reads), frozenset(binds), frozenset(changes(tree)))


def modules(cells):
    """Names of modules: calling their functions changes none of them."""
    found = set()
    for cell in cells:
        for node in ast.walk(ast.parse(cell.code)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {(one.asname or one.name).split(".")[0] for one in node.names}
    return found


def needed(notebook, target, whole=False):
    """The code cells that ``target(cell)`` cells need, in order, these included; all before them if whole."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cells = [read(cell) for cell in code]
    kept = {i for i, cell in enumerate(code) if target(cell)}
    last, packages = max(kept), modules(cells)
    if whole:
        return cells[: last + 1]
    while True:
        names_needed = frozenset().union(*(cells[i].reads for i in kept))
        more = {
            i
            for i, cell in enumerate(cells[:last])
            if cell.binds & names_needed or (cell.changes - packages) & names_needed
        }
        if more <= kept:
            return [cells[i] for i in sorted(kept)]
        kept |= more
