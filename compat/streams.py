"""torchdata.datapipes.utils: streams, and drawings of chains."""

from __future__ import annotations

import gc
import io
from abc import ABCMeta
from collections.abc import Iterator
from typing import Any

from ..errors.optional import require
from ..registry import sources_of, walk
from ..state.graph import DataPipe


class _OpenStreams:
    """The streams that are open, of operators and of the program's own wrappers, while `debug_unclosed_streams`.

    Small members of archives are in memory, and hold nothing open.
    """

    def __get__(self, stream: object, owner: type[StreamWrapper]) -> dict[Any, int]:
        if not owner.debug_unclosed_streams:
            return {}
        gc.collect()  # which closes those that nobody can reach
        theirs = ("penstock.", "torch.utils.data.")
        found = (
            each
            for each in gc.get_objects()
            if issubclass(kind := type(each), StreamWrapper) and kind.__module__.startswith(theirs)
        )
        return {each: 1 for each in found if not each.closed}


class StreamWrapper(metaclass=ABCMeta):  # noqa: B024 - for the hook below
    """A stream that is closed when dropped. `isinstance` also accepts the streams that operators emit.

    >>> stream = StreamWrapper(io.BytesIO(b"text"), name="a file")
    >>> stream.read()
    b'text'
    """

    debug_unclosed_streams = False
    """Whether `session_streams` looks for open streams, which takes a moment."""
    session_streams = _OpenStreams()

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj = file_obj
        self.parent_stream = parent_stream  # kept alive with this stream
        self.name = name
        self.closed = False

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        # Torch's own StreamWrapper, which its pipes emit, is recognized by name.
        return issubclass(other, io.IOBase) or any(kind.__name__ == "StreamWrapper" for kind in other.__mro__)

    def close(self) -> None:
        """Close the stream."""
        if not self.closed:
            self.closed = True
            self.file_obj.close()

    @staticmethod
    def close_streams(v: Any) -> None:
        """Close every stream in an item, as `janitor` does."""
        janitor(v)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["file_obj"], name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.file_obj)

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if "closed" in vars(self):
            self.close()

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.name or repr(self.file_obj)}>"


def janitor(obj: Any) -> None:
    """Close every stream in an item: itself, or those inside its lists, tuples and dicts.

    >>> stream = io.BytesIO()
    >>> janitor({"image": [stream]})
    >>> stream.closed
    True
    """
    if isinstance(obj, StreamWrapper):
        obj.close()
    elif isinstance(obj, dict):
        janitor([*obj.values()])
    elif isinstance(obj, (list, tuple)):
        for part in obj:
            janitor(part)


def validate_pathname_binary_tuple(data: Any) -> None:
    """Raise TypeError unless an item is a pair of a path, as a string, and a stream."""
    if not (isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], str)):
        raise TypeError(f"a pair of a path and a stream is needed, and this is {data!r:.100}")
    if not isinstance(data[1], StreamWrapper):
        raise TypeError(f"pairs of a path and a stream are needed, and with the path comes a {type(data[1]).__name__}")


def to_graph(dp: DataPipe, *, debug: bool = False) -> Any:
    """Return a drawing of a chain, as a `graphviz.Digraph`; the repr of a pipe shows the same as text.

    `debug` adds each pipe's id. Raises ImportError if graphviz is not installed.
    """
    drawing = require("graphviz", "graphviz").Digraph(node_attr={"shape": "box"})
    for pipe in walk(dp):
        name = type(pipe).__name__
        drawing.node(str(id(pipe)), f"{name}\n{id(pipe)}" if debug else name)
        for source in sources_of(pipe):
            drawing.edge(str(id(source)), str(id(pipe)))
    return drawing
