# SPDX-License-Identifier: Apache-2.0
"""The docstring of every public name has a summary, its arguments, its result, its errors and an example.

A method without a docstring has that of the method that it overrides, as `help` and editors show it: it must be true of
both.
"""

import ast
import enum
import functools
import inspect
import re
import textwrap
from collections import defaultdict

import brainevent

MODULES = ("brainevent", "config", "connect", "half", "models", "surrogate")
PROTOCOLS = {"tree_flatten", "tree_flatten_with_keys", "tree_unflatten"}  # which JAX calls
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Examples?):$")


def sections(doc):
    """Return the text of each section of a docstring by its name, of what comes before by ""."""
    found, name = defaultdict(list), ""
    for line in inspect.cleandoc(doc or "").splitlines():
        if match := SECTION.match(line):
            name = match[1]
            found[name] = []
        else:
            found[name].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def described(text):
    """Return the names that an Args section describes."""
    text = textwrap.dedent(text)
    return {
        name.strip("* ")
        for line in text.splitlines()
        if (match := re.match(r"([*\w][\w*, ]*)(?: \([^)]*\))?:", line))
        for name in match[1].split(",")
    }


def parameters(function):
    """Return the parameters that callers see."""
    found = inspect.signature(function).parameters.values()
    return [p for p in found if p.name not in ("self", "cls") and not p.name.startswith("_")]


def raises(function):
    """Say whether a raise statement stands in the function itself."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return False
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def methods(cls):
    """Yield (name, function) for the public methods and properties that a class of ours defines."""
    for name, value in vars(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if inspect.isfunction(function) and function.__module__.startswith("brainevent"):
            yield name, function


@functools.cache
def public():
    """Return (functions, classes) that are public, by module and qualified name."""
    functions, classes = {}, {}
    for module in MODULES:
        place = brainevent if module == "brainevent" else getattr(brainevent, module)
        for name in getattr(place, "__all__", None) or vars(place):
            value = getattr(place, name)
            if name.startswith("_") or not getattr(value, "__module__", "").startswith("brainevent"):
                continue
            if inspect.isclass(value):
                for base in value.__mro__:
                    if base.__module__.startswith("brainevent"):
                        classes[f"{base.__module__}.{base.__qualname__}"] = base
            elif inspect.isfunction(value):
                functions[f"{value.__module__}.{value.__qualname__}"] = value
    return functions, classes


@functools.cache
def examples_of(cls):
    """Return all examples of a class, of its public bases and subclasses, and of their methods."""
    found = []
    for other in public()[1].values():
        if issubclass(cls, other) or issubclass(other, cls):
            docs = [other.__doc__, *(function.__doc__ for _, function in methods(other))]
            found += [line for doc in docs for line in (doc or "").splitlines() if ">>>" in line or "..." in line]
    return "\n".join(found)


def lacking(function, *, example=None):
    """Yield what the docstring of a function lacks, or says wrongly."""
    text = inspect.getdoc(function) or ""
    doc = sections(text)
    summary, _, rest = doc[""].partition("\n")
    if not summary.endswith((".", "?")) or rest[:1] not in ("", "\n"):
        yield "a summary of one line"
    given = parameters(function)
    names = {p.name for p in given}
    wanted = described(doc.get("Args", ""))
    if names - wanted:
        yield f"Args: {', '.join(sorted(names - wanted))}"
    if wanted - names:
        yield f"Args that there are not: {', '.join(sorted(wanted - names))}"
    signature = inspect.signature(function)
    plain = [
        p.name
        for p in given
        if p.annotation in ("Any", "Any | None") and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if plain or signature.return_annotation == "Any":
        yield f"types: {', '.join(plain) or 'of the result'}"
    if signature.return_annotation not in ("None", "NoReturn", None) and not doc.keys() & {"Returns", "Yields"}:
        yield "Returns"
    if raises(function) and "Raises" not in doc:
        yield "Raises"
    if ">>>" not in text and not (example and re.search(rf"\b{example[1]}\b", example[0])):
        yield "an example"


def lacking_class(cls):
    """Yield what the docstring of a class lacks."""
    own = sections(vars(cls).get("__doc__"))
    if not own[""].partition("\n")[0].endswith("."):
        yield "a summary of one line"
    if "__init__" in vars(cls) and not cls.__name__.startswith("_"):
        missing = {p.name for p in parameters(cls.__init__)} - described(
            own.get("Args", "") + own.get("Attributes", "")
        )
        if missing:
            yield f"Args: {', '.join(sorted(missing))}"
    if (
        not cls.__name__.startswith("_")
        and not issubclass(cls, (BaseException, enum.Enum))
        and ">>>" not in (cls.__doc__ or "")
        and not any(">>>" in (other.__doc__ or "") for other in public()[1].values() if issubclass(other, cls))
    ):
        yield "an example"


def wrong():
    """Yield (name, what it lacks) for everything that is public."""
    functions, classes = public()
    for name, function in functions.items():
        yield from ((name, what) for what in lacking(function))
    for name, cls in classes.items():
        yield from ((name, what) for what in lacking_class(cls))
        for method, function in methods(cls):
            if method in PROTOCOLS:
                continue
            if isinstance(vars(cls)[method], property):
                if not (inspect.getdoc(function) or "").partition("\n")[0].endswith("."):
                    yield f"{name}.{method}", "a summary of one line"
            else:
                yield from (
                    (f"{name}.{method}", what) for what in lacking(function, example=(examples_of(cls), method))
                )


def test_every_public_name_says_all():
    assert [f"{name}: {what}" for name, what in wrong()] == []


def test_what_a_docstring_lacks_is_found():
    """The test above can fail: for each rule."""

    def function(x: "Any", size: "int") -> "int":  # noqa: F821
        raise ValueError

    function.__doc__ = "Say nothing\n\n    Args:\n        size: That.\n        other: This.\n    "
    assert list(lacking(function)) == [
        "a summary of one line", "Args: x", "Args that there are not: other", "types: x", "Returns", "Raises",
        "an example",
    ]  # fmt: skip
