"""The nodes of a picture: each shows a step of the chain, with its words and the nodes that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...registry.sharding import sharding_points
from ...state.foreign import declared
from ...state.graph import DataPipe
from ...state.step_text import arguments_of, is_data_set
from ..chain_info import ChainInfo, StepInfo
from ..display import show_chain
from .items import item_of, type_in_words

_MOST_NODES = 60
"""The most nodes of a picture. Of a longer chain it has the first and the last."""
_AT_EACH_END = 20
_MOST_SIDE_BY_SIDE = 6
"""The most sources of a node that lie side by side. More are lines of one node."""
_MOST_LINES = 14

DIVIDES = "divides among shards"

Share = tuple[float, str]
"""A share between 0 and 1, drawn as a bar on a node, and a short text."""


@dataclass
class PictureNode:
    """A step of a chain in a picture, or several in one."""

    kind: Literal["iterable", "map-style", "several"]
    name: str
    arguments: str = ""
    lines: list[str] = field(default_factory=list)
    """The sources, if there are many."""
    marks: list[str] = field(default_factory=list)
    """Properties of the step, each in a few words."""
    item: str = ""
    """The type of its items, if known."""
    is_divided: bool = False
    """Its items are divided among shards."""
    in_main_process: bool = False
    sources: dict[int, str] = field(default_factory=dict)
    """The places of the nodes that it reads, in the list of nodes, each with the numbers of the branches it reads."""
    share: Share = (0, "")
    text: str = ""
    """The full text of the node, for when one points at it."""


def nodes_of(chain: DataPipe, shares: Mapping[int, Share] | None = None) -> list[PictureNode]:
    """Return the nodes of a chain, sources first. `shares` has the bars of some pipes, by their ids."""
    return _Graph(ChainInfo(chain, stop=is_data_set), shares or {}).nodes


class _Graph:
    def __init__(self, chain: ChainInfo, shares: Mapping[int, Share]) -> None:
        self.shares = shares
        self.seen: dict[str, Any] = {}
        self.divided: set[StepInfo] = set()
        self.in_main_process: set[StepInfo] = set()
        self.items: dict[StepInfo, Any] = {}
        self.nodes: list[PictureNode] = []
        self.places: dict[StepInfo, int] = {}
        """The place of the node that shows a step."""
        for step in chain.steps:
            self._inherit(step)
        listed = {step: _listed_sources(step) for step in chain.steps}
        hidden = {each for sources in listed.values() for source in sources for each in (source, *source.above())}
        drawn = [step for step in chain.steps if step not in hidden]
        omitted = drawn[_AT_EACH_END:-_AT_EACH_END] if len(drawn) > _MOST_NODES else []
        for step in drawn:
            if step in self.places:
                continue
            if step.is_branch:
                self.places[step] = self.places[step.sources[0]]
            elif step in omitted[:1]:
                more = f"… {len(omitted):,} more"
                self._add(PictureNode("several", more, text=more), omitted)
            else:
                if sources := listed[step]:
                    self._add(_sources_in_lines(sources, step), sources)
                self._add(self._node(step), [step])

    def _inherit(self, step: StepInfo) -> None:
        """Set the properties of a step that follow from those of its sources."""
        try:
            self.items[step] = item_of(step, [self.items[source] for source in step.sources])
        except Exception:  # annotations may be anything, and a picture does not depend on them
            self.items[step] = Any
        divides = step.is_sharding_point or (is_data_set(step.pipe) and bool(sharding_points(step.pipe)))
        if divides or not self.divided.isdisjoint(step.sources):
            self.divided.add(step)
        if step.in_main_process or not self.in_main_process.isdisjoint(step.sources):
            self.in_main_process.add(step)

    def _add(self, node: PictureNode, steps: list[StepInfo]) -> None:
        """Add a node that shows some steps, of which the last gives what the node gives."""
        place = len(self.nodes)
        self.places.update(dict.fromkeys(steps, place))
        for source in (source for step in steps for source in step.sources if self.places.get(source, place) != place):
            number = f"[{source.attributes['number']}]" if source.is_branch else ""
            read = node.sources.get(self.places[source], "")
            node.sources[self.places[source]] = ", ".join(filter(None, (read, number)))
        node.is_divided = steps[-1] in self.divided and steps[-1] not in self.in_main_process
        node.in_main_process = steps[-1] in self.in_main_process
        self.nodes.append(node)

    def _node(self, step: StepInfo) -> PictureNode:
        if shown_as := declared(step.pipe, "in_a_chain", None):
            name, _, rest = shown_as(step.pipe).partition("(")
            short = full = rest.removesuffix(")")
            marks = [DIVIDES] if step in self.divided else []
        else:
            name = _name(step)
            short = ", ".join(arguments_of(step.pipe, seen=self.seen))
            full = ", ".join(arguments_of(step.pipe, in_full=True))
            marks = _marks(step, short)
        item = type_in_words(self.items[step])
        kind: Literal["iterable", "map-style"] = "map-style" if step.is_map_style else "iterable"
        text = f"{name}({full})\n{', '.join([kind, *([f'gives {item}'] if item else []), *marks])}"
        marks = ["map-style", *marks] if step.is_map_style else marks
        return PictureNode(
            kind, name, short, marks=marks, item=item, share=self.shares.get(id(step.pipe), (0, "")), text=text
        )


def _listed_sources(step: StepInfo) -> list[StepInfo]:
    """Return the sources of a step that are lines of one node: many, of which nothing else reads a part."""
    if len(step.sources) <= _MOST_SIDE_BY_SIDE:
        return []
    alone = [each for each in step.sources if all(len(above.readers) == 1 for above in (each, *each.above()))]
    return alone if len(alone) > 1 else []


def _sources_in_lines(sources: list[StepInfo], reader: StepInfo) -> PictureNode:
    places = {source: place for place, source in enumerate(reader.sources)}
    lines = [f"{places[each]}: {' '.join(show_chain(each.pipe).split())}" for each in sources[:_MOST_LINES]]
    more = [f"… {len(sources) - _MOST_LINES:,} more"] if len(sources) > _MOST_LINES else []
    name = f"{len(sources):,} sources"
    return PictureNode("several", name, lines=lines + more, text="\n".join([name, *lines, *more]))


def _name(step: StepInfo) -> str:
    name = type(step.pipe).__name__
    return f".{step.method}" if step.sources and step.method != name else name


def _marks(step: StepInfo, arguments: str) -> list[str]:
    marks = []
    if step.is_sharding_point:
        marks.append(DIVIDES)
    if step.is_random:
        marks.append("random")
    if step.works_in is not None:
        marks.append(f"reads ahead in {step.works_in}")
    for name, most in step.buffers.items():
        if most is None:
            marks.append(f"no limit of {name}")
        elif isinstance(most, int) and f"{most}" not in arguments:  # a default, which the arguments do not show
            marks.append(f"{name} {most:,}")
    read = {reader.attributes["number"] for reader in step.readers if reader.is_branch}
    unread = [f"[{number}]" for number in range(step.attributes.get("number_of_branches", 0)) if number not in read]
    return [*marks, f"{', '.join(unread)} not read here"] if read and unread else marks
