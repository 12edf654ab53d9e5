"""Number the items, and set the length of a stream."""

from __future__ import annotations

import copy
import operator
from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from itertools import starmap
from typing import Any

from ...registry import IterDataPipe, R, T, Tally, expect_whole, functional_datapipe, own
from ...registry.sharding import part_read
from ..bases.one_to_one import SameItems


class _Numbering(IterDataPipe[R]):
    """Yield each item with its running number: the base of the numbering operators."""

    resumes_from_start = False
    given: Tally = own(Tally)

    source: IterDataPipe[Any]
    starting_index: int = 0

    def _numbered(self) -> Iterator[tuple[int, Any]]:
        return enumerate(self.given.follow(self.source), self.starting_index + self.given.items)

    def __len__(self) -> int:
        return len(self.source)


@functional_datapipe("enumerate")
class Enumerator(_Numbering[tuple[int, T]]):
    """Yield pairs of a running number, from `starting_index` on, and the item.

    >>> dp = IterableWrapper("abc").enumerate(starting_index=1)
    >>> list(dp)
    [(1, 'a'), (2, 'b'), (3, 'c')]
    """

    resumes_from_start = False

    def __init__(self, source: IterDataPipe[T], starting_index: int = 0) -> None:
        expect_whole("starting_index", starting_index, least=None)
        self.source = source
        self.starting_index = operator.index(starting_index)

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return self._numbered()


@functional_datapipe("add_index")
class IndexAdder(_Numbering[dict[Any, Any]]):
    """Yield each dict with its running number, from 0 on, added under the key `index_name`.

    The outputs are copies: dicts of the source stay unchanged. An existing value under that key is replaced.

    Raises TypeError for an item that is not a dict.

    >>> dp = IterableWrapper([{"text": "one"}, {"text": "two"}]).add_index()
    >>> list(dp)
    [{'text': 'one', 'index': 0}, {'text': 'two', 'index': 1}]
    """

    resumes_from_start = False
    gives = "same"

    def __init__(self, source: IterDataPipe[Mapping[Any, Any]], index_name: Hashable = "index") -> None:
        hash(index_name)
        self.source = source
        self.index_name = index_name

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        return starmap(self._with_index, self._numbered())

    def _with_index(self, index: int, item: Any) -> Any:
        if not isinstance(item, (dict, MutableMapping)):
            raise TypeError(
                f"a number is put into a dict, and the item is of type {type(item).__name__}: "
                "enumerate() gives pairs of a number and any item"
            )
        indexed = {**item} if type(item) is dict else copy.copy(item)
        indexed[self.index_name] = index
        return indexed


@functional_datapipe("set_length")
class LengthSetter(SameItems[T]):
    """Yield the items as they are, and set `len` to `length`.

    Use it where you know the length and the chain cannot, such as after `filter`. Nothing is cut or checked; `header`
    cuts. Behind a `sharding_filter`, it is the length of the whole stream, and that of each part is unknown: a loader
    that reads all parts has it if only steps that map items one to one follow.

    >>> dp = IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).set_length(5)
    >>> len(dp), list(dp)
    (5, [0, 2, 4, 6, 8])
    """

    traits = ("sets_length",)
    resumes_from_start = False
    broken_laws = {
        "len_is_exact": "the length is its user's word",
        "empty_source_ends": "the length is its user's word, over an empty source too",
    }

    def __init__(self, source: IterDataPipe[T], length: int) -> None:
        expect_whole("length", length, least=0)
        self.source = source
        self.length = length

    def __iter__(self) -> Iterator[T]:
        return iter(self.source)

    def __len__(self) -> int:
        parts, part = part_read(self)
        if parts > 1:
            raise TypeError(
                f"the length of part {part} of {parts} is unknown: set_length({self.length}) counts the items of all "
                "parts; set it as the last step, or before the sharding_filter if that divides the same items; on "
                "several ranks, give steps_per_epoch"
            )
        return self.length
