"""The laws of making a chain again: by constructor, by method, by copying; and the text of a chain."""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..registry import IterDataPipe, MapDataPipe
from ..state.graph import is_one_of_several, sources_of, walk
from ..state.seeds import seed_graph
from ..state.step_text import step_text
from .probes import Maker, agree, constructor_arguments, items_of, law, seeded, tap

__all__: list[str] = []  # its laws enter themselves


@law()
def construction_pulls_nothing(make: Maker) -> None:
    """Making a chain reads nothing from its sources."""
    pipe = make()
    begun = [step_text(part) for part in walk(pipe) if vars(part).get("_pass") is not None]
    if begun:
        raise AssertionError(f"a pass had begun over {' and '.join(begun)} before the chain was read")
    probes = tap(pipe)
    with contextlib.suppress(Exception):  # arguments not kept as given: another law reports them
        args, kwargs = constructor_arguments(pipe)
        type(pipe)(*args, **kwargs)
    if pulled := [plain for probe in probes for _, plain in probe.pulled]:
        raise AssertionError(f"the constructor took {pulled!r:.200}")


@law()
def copies_agree(make: Maker) -> None:
    """A copy made by pickle, cloudpickle or deepcopy, before, during or after a pass, yields all items."""
    expected = items_of(seeded(make))
    for taken in sorted({0, 1, len(expected) // 2, len(expected) + 1}):
        pipe = seeded(make)
        iterator = iter(pipe)
        items = items_of(islice(iterator, taken))
        for way, copied in _copies(pipe):
            seed_graph(copied, 0)
            agree(items_of(copied), expected, f"a copy made by {way} after {len(items)} items")
        agree(items + items_of(iterator), expected, f"the pipe itself, copied after {len(items)} items")


def _copies(pipe: Any) -> Iterator[tuple[str, Any]]:
    import cloudpickle  # type: ignore[import-untyped]  # slow to import, and only needed here

    yield "cloudpickle", pickle.loads(cloudpickle.dumps(pipe))
    yield "copy.deepcopy", copy.deepcopy(pipe)
    try:
        pickled = pickle.dumps(pipe)
    except (pickle.PicklingError, AttributeError, TypeError):  # plain pickle takes no lambdas or local classes
        return
    yield "pickle", pickle.loads(pickled)


@law()
def methods_are_not_hidden(make: Maker) -> None:
    """No attribute has the name of a method, which it would hide."""
    pipe = make()
    if hidden := [name for name in vars(pipe) if callable(getattr(type(pipe), name, None))]:
        raise AssertionError(f"{hidden} are both attributes and methods: begin the attributes with an underscore")


@law()
def method_and_constructor_agree(make: Maker) -> None:
    """The constructor and the method of an operator make the same pipe.

    The arguments are read from the attributes with the names of the parameters. If an operator gives several pipes, all
    are compared.
    """
    for part in walk(make()):
        if isinstance(part, (IterDataPipe, MapDataPipe)) and isinstance(as_it_was := type(part).result(part), list):
            _gives_the_same(part, as_it_was)
    if is_one_of_several(make()):
        return
    expected, shown = items_of(seeded(make)), repr(make())

    def by_constructor() -> Any:
        pipe = make()
        args, kwargs = constructor_arguments(pipe)
        return type(pipe)(*args, **kwargs)

    def by_method() -> Any:
        pipe = make()
        (source, *args), kwargs = constructor_arguments(pipe)
        return getattr(source, type(pipe).functional_name)(*args, **kwargs)

    has_method = "functional_name" in vars(type(make())) and sources_of(make())
    for made_by in (by_constructor, by_method) if has_method else (by_constructor,):
        if (seen := repr(made_by())) != shown:
            raise AssertionError(f"made {made_by.__name__}, the chain is\n{seen}")
        agree(items_of(seeded(made_by)), expected, f"made {made_by.__name__}")


def _gives_the_same(part: Any, as_it_was: list[Any]) -> None:
    (source, *args), kwargs = constructor_arguments(part)

    def shown_and_read(made: list[Any]) -> list[Any]:
        seed_graph(made[0], 0)
        return [(repr(each), items_of(each)) for each in made]

    expected = shown_and_read(as_it_was)
    agree(shown_and_read(type(part)(source, *args, **kwargs)), expected, "made by constructor")
    if (name := type(part).functional_name) is not None:
        agree(shown_and_read(getattr(source, name)(*args, **kwargs)), expected, "made by method")


@law()
def repr_shows_the_chain(make: Maker) -> None:
    """The text of a chain names each of its operators, and contains no memory address."""
    pipe = make()
    shown = repr(pipe)
    if re.search(r"\b0x[0-9a-f]{6}", shown):
        raise AssertionError("it contains a memory address")
    for part in walk(pipe):
        if is_one_of_several(part):
            continue  # repr shows it as a branch
        names = {type(part).__name__, f".{getattr(type(part), 'functional_name', None)}("}
        if not any(name in shown for name in names):
            raise AssertionError(f"{type(part).__name__} is not in it")
