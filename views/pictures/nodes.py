"""The nodes of a picture: each shows a step of the chain, with its words and the nodes that it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...registry.sharding import sharding_points
from ...state.foreign import TorchMapDataPipe, declared
from ...state.graph import DataPipe, is_one_of_several, sources_first, sources_of, walk
from ...state.step_text import arguments_of, is_data_set
from ..chain_info import StepInfo
from ..display import show_chain
from .items import item_of, type_in_words

__all__ = ["DIVIDES", "PictureNode", "Share", "nodes_of"]

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

    kind: Literal["iterable", "map-style", "branch", "unread", "sources", "omitted"]
    name: str
    arguments: str = ""
    arguments_in_full: str = ""
    lines: list[str] = field(default_factory=list)
    """The sources, if there are many, or the omitted steps."""
    marks: list[str] = field(default_factory=list)
    """Properties of the step, each in a few words."""
    item: str = ""
    """The type of its items, if known."""
    is_divided: bool = False
    """Its items are divided among shards."""
    in_main_process: bool = False
    sources: list[int] = field(default_factory=list)
    """The places of the nodes that it reads, in the list of nodes."""
    reads_twice: set[int] = field(default_factory=set)
    """The sources that it reads more than once."""
    share: Share | None = None

    @property
    def text(self) -> str:
        """The full text of the node, for when one points at it."""
        if self.kind not in ("iterable", "map-style"):
            return "\n".join([self.name, *self.lines])
        properties = [self.kind, *([f"gives {self.item}"] if self.item else []), *self.marks]
        return f"{self.name}({self.arguments_in_full})\n{', '.join(properties)}"


def nodes_of(chain: DataPipe, shares: Mapping[int, Share] | None = None) -> list[PictureNode]:
    """Return the nodes of a chain, sources first. `shares` has the bars of some pipes, by their ids."""
    return _Graph(chain, shares or {}).nodes


class _Graph:
    def __init__(self, chain: DataPipe, shares: Mapping[int, Share]) -> None:
        pipes = sources_first(chain, stop=is_data_set)
        self.chain = chain
        self.shares = shares
        self.sources = {id(pipe): [] if is_data_set(pipe) else sources_of(pipe) for pipe in pipes}
        self.folded = _folded(pipes, self.sources)
        hidden = {id(pipe) for several in self.folded.values() for source in several for pipe in walk(source)}
        drawn = [pipe for pipe in pipes if id(pipe) not in hidden]
        self.omitted = drawn[_AT_EACH_END:-_AT_EACH_END] if len(drawn) > _MOST_NODES else []
        self.branches = {
            (id(self.sources[id(pipe)][0]), vars(pipe)["number"]) for pipe in drawn if is_one_of_several(pipe)
        }
        self.seen: dict[str, Any] = {}
        self.divided: set[int] = set()
        self.in_main_process: set[int] = set()
        self.items: dict[int, Any] = {}
        self.places: dict[int, int] = {}
        self.nodes: list[PictureNode] = []
        for pipe in pipes:
            self._inherit(pipe)
        omitted = {id(pipe) for pipe in self.omitted}
        for pipe in drawn:
            if id(pipe) not in omitted:
                self._add_pipe(pipe)
            elif pipe is self.omitted[0]:
                self._add_omission(omitted)

    def _inherit(self, pipe: DataPipe) -> None:
        """Set the properties of a pipe that follow from those of its sources."""
        info, sources = StepInfo(pipe), self.sources[id(pipe)]
        try:
            self.items[id(pipe)] = item_of(pipe, [self.items[id(source)] for source in sources])
        except Exception:  # annotations may be anything, and a picture does not depend on them
            self.items[id(pipe)] = Any
        divides = bool(sharding_points(pipe)) if is_data_set(pipe) else info.is_sharding_point
        if divides or any(id(source) in self.divided for source in sources):
            self.divided.add(id(pipe))
        if info.in_main_process or any(id(source) in self.in_main_process for source in sources):
            self.in_main_process.add(id(pipe))

    def _add_pipe(self, pipe: DataPipe) -> None:
        sources = self.sources[id(pipe)]
        if several := self.folded.get(id(pipe), []):
            self._add(_sources_in_lines(several, sources), ())
        node = _node(pipe, bool(sources), self.seen)
        node.item = type_in_words(self.items[id(pipe)])
        node.is_divided = id(pipe) in self.divided and id(pipe) not in self.in_main_process
        node.in_main_process = id(pipe) in self.in_main_process
        node.share = self.shares.get(id(pipe))
        if several:
            node.sources.append(len(self.nodes) - 1)
        in_lines = {id(source) for source in several}
        self._add(node, [source for source in sources if id(source) not in in_lines])
        self.places[id(pipe)] = len(self.nodes) - 1
        for number in range(vars(pipe).get("number_of_branches", 0) if pipe is not self.chain else 0):
            if (id(pipe), number) not in self.branches:
                self._add(PictureNode("unread", f"[{number}] not read here"), [pipe])

    def _add_omission(self, omitted: set[int]) -> None:
        """Add one node in place of many."""
        read = [source for pipe in self.omitted for source in self.sources[id(pipe)] if id(source) in self.places]
        names = Counter(_name(pipe, bool(self.sources[id(pipe)])) for pipe in self.omitted)
        most = [f"{name} × {count:,}" for name, count in names.most_common(3)]
        node = PictureNode("omitted", f"… {len(omitted):,} more", lines=[*most, *(["…"] if len(names) > 3 else [])])
        last = id(self.omitted[-1])
        node.is_divided = last in self.divided and last not in self.in_main_process
        node.in_main_process = last in self.in_main_process
        self._add(node, dict.fromkeys(read))
        self.places.update(dict.fromkeys(omitted, len(self.nodes) - 1))

    def _add(self, node: PictureNode, sources: Iterable[DataPipe]) -> None:
        counts = Counter(self.places[id(source)] for source in sources)
        node.sources += counts
        node.reads_twice = {place for place, count in counts.items() if count > 1}
        self.nodes.append(node)


def _folded(pipes: list[DataPipe], sources: Mapping[int, list[DataPipe]]) -> dict[int, list[DataPipe]]:
    """Return, for each pipe of many sources, by its id, those of them that nothing else reads in part or whole."""
    readers = Counter(id(source) for pipe in pipes for source in sources[id(pipe)])
    alone: set[int] = set()  # read by one pipe, as is all that it reads
    for pipe in pipes:
        if readers[id(pipe)] == 1 and all(id(source) in alone for source in sources[id(pipe)]):
            alone.add(id(pipe))
    many = {id(pipe): sources[id(pipe)] for pipe in pipes if len(sources[id(pipe)]) > _MOST_SIDE_BY_SIDE}
    in_lines = {reader: [source for source in those if id(source) in alone] for reader, those in many.items()}
    return {reader: several for reader, several in in_lines.items() if len(several) > 1}


def _sources_in_lines(several: list[DataPipe], of: list[DataPipe]) -> PictureNode:
    """Return one node for several of the sources of a pipe, each with its place among them."""
    places = {id(source): place for place, source in enumerate(of)}
    listed = several[:_MOST_LINES]
    lines = [f"{places[id(source)]}: {' '.join(show_chain(source).split())}" for source in listed]
    more = [f"… {len(several) - len(listed):,} more"] if len(several) > len(listed) else []
    return PictureNode("sources", f"{len(several):,} sources", lines=lines + more)


def _node(pipe: DataPipe, reads: bool, seen: dict[str, Any]) -> PictureNode:
    kind: Literal["iterable", "map-style"] = "map-style" if isinstance(pipe, TorchMapDataPipe) else "iterable"
    if is_one_of_several(pipe):
        return PictureNode("branch", f"[{vars(pipe)['number']}]")
    if shown_as := declared(pipe, "in_a_chain", None):
        name, _, rest = shown_as(pipe).partition("(")
        marks = [DIVIDES] if sharding_points(pipe) else []
        return PictureNode(kind, name, rest.removesuffix(")"), rest.removesuffix(")"), marks=marks)
    short, full = ", ".join(arguments_of(pipe, seen=seen)), ", ".join(arguments_of(pipe, in_full=True))
    return PictureNode(kind, _name(pipe, reads), short, full, marks=_marks(StepInfo(pipe), short))


def _name(pipe: DataPipe, reads: bool) -> str:
    method = vars(type(pipe)).get("functional_name")  # not inherited: a subclass is another operator
    return f".{method}" if method and reads else type(pipe).__name__


def _marks(info: StepInfo, arguments: str) -> list[str]:
    marks = []
    if info.is_sharding_point:
        marks.append(DIVIDES)
    if info.is_random:
        marks.append("random")
    if info.works_in is not None:
        marks.append(f"reads ahead in {info.works_in}")
    for name, most in info.buffers.items():
        if most is None or (isinstance(most, int) and most < 0):
            marks.append(f"no limit of {name}")
        elif isinstance(most, int) and f"{most}" not in arguments:  # a default, which the arguments do not show
            marks.append(f"{name} {most:,}")
    return marks
