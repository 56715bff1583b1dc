"""The reference of the package: every public name is documented in full, once, and leads to its source."""

import ast
import doctest
import inspect
import re
import textwrap
from functools import cached_property

import pytest
import yaml
from browsing import ROOT, SITE
from bs4 import BeautifulSoup
from numpydoc.docscrape import NumpyDocString

import tokensel as ts
from tokensel import feasibility, first_step, flow, limits, maxmargin, training

# What functions return, and no reader makes: documented, though not public names of the package itself.
RESULTS = [
    training.History,
    feasibility.Dropped,
    flow.FlowPath,
    maxmargin.MaxMargin,
    first_step.OneStepError,
    limits.Reachability,
]
API = "book/reference/api"
PAGES = [API, *sorted(f"book/reference/{path.stem}" for path in (ROOT / API).parent.glob("api-*.rst"))]


def members(thing):
    """The public methods and properties that a class defines itself, but for hooks of its base class."""
    for name, value in vars(thing).items():
        value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        inherits = value.__doc__ is None and any(hasattr(base, name) for base in thing.__bases__)
        documented = inspect.isfunction(value) or isinstance(value, property | cached_property)
        if documented and not inherits and not name.startswith("_"):
            yield name, value


def with_members(name, thing):
    yield name, thing, None
    if inspect.isclass(thing):
        for own, member in members(thing):
            yield f"{name}.{own}", member, thing


def public():
    """Everything a reader can call: full name, object, and the class it belongs to or None."""
    for name in ts.__all__:
        thing = getattr(ts, name)
        if not inspect.ismodule(thing):
            yield from with_members(f"tokensel.{name}", thing)
            continue
        yield f"tokensel.{name}", thing, None
        listed = getattr(thing, "__all__", None) or [
            own for own, value in vars(thing).items() if getattr(value, "__module__", None) == thing.__name__
        ]
        for own in listed:
            if not own.startswith("_") and callable(getattr(thing, own)):
                yield from with_members(f"tokensel.{name}.{own}", getattr(thing, own))
    for thing in RESULTS:
        yield from with_members(f"{thing.__module__}.{thing.__name__}", thing)


PUBLIC = list(public())
FUNCTIONS = [entry for entry in PUBLIC if inspect.isfunction(entry[1])]


def names(entries):
    return [name for name, *_ in entries]


def documentation(thing):
    return inspect.getdoc(thing) or ""


def sections(thing):
    return NumpyDocString(documentation(thing))


def test_there_are_names_to_look_at():
    assert {"tokensel.Corpus.from_texts", "tokensel.theory.late_flow", "tokensel.fit"} <= set(names(PUBLIC))


@pytest.mark.parametrize(("name", "thing", "owner"), PUBLIC, ids=names(PUBLIC))
def test_it_is_summed_up_in_a_sentence(name, thing, owner):
    first = documentation(thing).partition("\n\n")[0]
    assert re.search(r"[.:]$", first.strip()), f"{name}: {first!r}"
    assert len(first.split()) >= 3


def has_example(name, thing, owner):
    """Whether an example shows the thing: its own, that of its class, or of what its docstring points to."""
    if ">>>" in documentation(thing):
        return True
    own = name.rpartition(".")[2]
    if owner is not None and re.search(rf"^\s*(>>>|\.\.\.).*\.{own}\b", documentation(owner), re.M):
        return True
    for pointed in re.findall(r":\w+:`~?tokensel\.([\w.]+)`", " ".join(sections(thing)["Examples"])):
        found = ts
        for part in pointed.split("."):
            found = getattr(found, part)
        if ">>>" in documentation(found):
            return True
    return False


@pytest.mark.parametrize(("name", "thing", "owner"), PUBLIC, ids=names(PUBLIC))
def test_it_has_an_example(name, thing, owner):
    if not inspect.ismodule(thing):
        assert has_example(name, thing, owner)


def parameters(function):
    """Names in the signature, without those that stand for the object or the class itself."""
    given = list(inspect.signature(function).parameters)
    return given[1:] if given[:1] in (["self"], ["cls"]) and "." in function.__qualname__ else given


def described(function):
    said = sections(function)
    entries = [*said["Parameters"], *said["Other Parameters"]]
    return [name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")]


@pytest.mark.parametrize(("name", "function", "owner"), FUNCTIONS, ids=names(FUNCTIONS))
def test_parameters_are_those_of_the_signature(name, function, owner):
    assert described(function) == parameters(function)


def returns_something(function):
    """Whether the source has a ``return`` with a value, or a ``yield``, of the function itself."""
    return any(
        isinstance(node, ast.Yield | ast.YieldFrom)
        or (isinstance(node, ast.Return) and node.value is not None)
        for node in own_nodes(function)
    )


def own_nodes(function):
    """Nodes of a function's body, without those of the functions inside it."""
    waiting = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].body
    while waiting:
        node, *waiting = waiting
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


@pytest.mark.parametrize(("name", "function", "owner"), FUNCTIONS, ids=names(FUNCTIONS))
def test_what_it_returns_and_raises_is_documented(name, function, owner):
    said = sections(function)
    assert bool(said["Returns"] or said["Yields"]) == returns_something(function)
    raised = {
        ast.unparse(node.exc).partition("(")[0]
        for node in own_nodes(function)
        if isinstance(node, ast.Raise) and node.exc
    }
    documented = {entry.type for entry in said["Raises"]}
    errors = {name for name in raised if name.endswith("Error")}
    assert errors <= {word for entry in documented for word in re.split(r",\s*", entry)}


# --- the built pages


@pytest.fixture(scope="module")
def reference():
    """The pages of the package, parsed: address to tree."""
    return {
        address: BeautifulSoup((SITE / f"{address}.html").read_text(encoding="utf-8"), "html.parser")
        for address in PAGES
    }


def place(reference, name, thing):
    """The page and the element that document a name in full."""
    identifier = f"module-{name}" if inspect.ismodule(thing) else name.replace("training_loop", "training")
    found = [
        (address, element)
        for address, soup in reference.items()
        if address != API and (element := soup.find(id=identifier)) is not None
    ]
    assert len(found) == 1, f"{name} is documented on {[address for address, _ in found]}"
    return found[0]


def test_every_name_is_documented_once_and_leads_to_its_source(reference):
    astray = []
    for name, thing, _ in PUBLIC:
        address, element = place(reference, name, thing)
        if not inspect.isfunction(thing) and not inspect.isclass(thing):
            continue  # a module, whose functions have links; a property, which its class leads to
        source = element.select_one("a:has(.viewcode-link)")
        if source is None:
            astray.append(name)
            continue
        path, _, anchor = source["href"].partition("#")
        page = (SITE / address).parent / path
        code = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find(id=anchor)
        if name.rpartition(".")[2] not in code.get_text():
            astray.append(name)
    assert astray == []


def test_the_index_has_every_name_and_leads_to_it(reference):
    index = reference[API].select_one("article")
    for name, thing, owner in PUBLIC:
        if owner is not None:
            continue
        address, _ = place(reference, name, thing)
        identifier = (
            f"module-{name}" if inspect.ismodule(thing) else name.replace("training_loop", "training")
        )
        row = index.find(id=identifier).find_parent("tr")
        link = row.select_one("a[href]")["href"]
        assert link == f"{address.rpartition('/')[2]}.html#{identifier}"
        assert len(row.select("td")[1].get_text().split()) >= 3


def test_a_page_of_source_leads_to_the_repository():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    page = BeautifulSoup((SITE / "_modules/tokensel/corpus.html").read_text(encoding="utf-8"), "html.parser")
    link = f"{config['repository']['url']}/blob/v{ts.__version__}/tokensel/corpus.py"
    assert page.select(f'article a[href="{link}"]')


@pytest.mark.parametrize("address", PAGES)
def test_examples_of_a_page_run(address):
    """Those that stand in the page itself; docstrings are tested where they stand."""
    path = ROOT / f"{address}.rst"
    assert (
        doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE).failed
        == 0
    )
