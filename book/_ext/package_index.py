"""Sphinx extension: the index of the package's names, and a way from a page of source to the repository.

The directive ``package-index`` lists public names with the first sentence of their docstring. A module
brings all its public names. Each row carries the id that its object has on the page that documents it, so
that an address such as ``api.html#tokensel.Corpus`` leads somewhere whichever page documents what.
"""

import importlib
import inspect
import re

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def find(name):
    """What a dotted name below ``tokensel`` stands for: a public name, or one in a module that is not."""
    import tokensel  # here, so that a book without this page need not load torch

    head, _, rest = name.partition(".")
    if not rest or head in tokensel.__all__:
        found = getattr(tokensel, head)
    else:
        found = importlib.import_module(f"tokensel.{head}")
    return getattr(found, rest) if rest else found


def public_names(module):
    """The functions and classes that a public module offers, in the order of its source or its imports."""
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and value.__module__ == module.__name__
    ]
    return getattr(module, "__all__", None) or own


def summary(thing):
    """The first sentence of a docstring, on one line; what only makes sense beside the rest is left out."""
    words = " ".join(inspect.getdoc(thing).split("\n\n")[0].split())
    return re.sub(r":(?!math)\w+:`~?([\w.]+)`", r"``\1``", re.sub(r" \[\d+\]_", "", words))


def rows(names):
    """Each name with its role and what it is, a module's own names after it."""
    for name in names:
        thing = find(name)
        if not inspect.ismodule(thing):
            yield role_of(thing), name, thing
            continue
        yield "mod", name, thing
        for inner in public_names(thing):
            yield role_of(getattr(thing, inner)), f"{name}.{inner}", getattr(thing, inner)


def role_of(thing):
    if inspect.isclass(thing):
        return "exc" if issubclass(thing, Exception) else "class"
    return "func"


class PackageIndex(SphinxDirective):
    has_content = True

    def run(self):
        self.env.note_dependency(__file__)
        listed = list(rows(" ".join(self.content).split()))
        text = [".. list-table::", "   :class: package-index", "   :widths: 40 60", ""]
        for role, name, thing in listed:
            self.env.note_dependency(inspect.getsourcefile(thing))
            text += [f"   * - :py:{role}:`{name} <tokensel.{name}>`", f"     - {summary(thing)}"]
        parent = nodes.container()
        self.state.nested_parse(StringList(text, __file__), self.content_offset, parent)
        for row, (role, name, _) in zip(parent.findall(nodes.row), listed, strict=True):
            row[0][0]["ids"].append(f"{'module-' if role == 'mod' else ''}tokensel.{name}")
        return parent.children


def link_to_repository(app, pagename, templatename, context, doctree):
    """A page of source says where the file stands in the repository, at this version."""
    if pagename.startswith("_modules/tokensel/"):
        from tokensel import __version__

        path = f"{pagename.removeprefix('_modules/')}.py"
        address = f"{app.config.html_theme_options['repository_url']}/blob/v{__version__}/{path}"
        context["body"] += (
            f'<p><a class="reference external" href="{address}">{path} in the repository</a></p>'
        )


def skip_fields(app, what, name, thing, skip, options):
    """Fields of a named tuple are described by its docstring; Python's own words for them say nothing."""
    return True if type(thing).__name__ == "_tuplegetter" else None


def setup(app):
    app.connect("autodoc-skip-member", skip_fields)
    app.add_directive("package-index", PackageIndex)
    app.connect("html-page-context", link_to_repository)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
