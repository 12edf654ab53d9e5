"""The connector's data sets, as pipes over the operators that list and divide addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

import cloudpickle  # type: ignore[import-untyped]

from ...errors.checks import takes_only
from ...pipes.bases.one_to_one import OneToOne
from ...pipes.iter import IterableWrapper, S3FileLister
from ...registry import IterDataPipe, MapDataPipe, expect_whole
from .objects import NO_CONSTRUCTOR, S3ClientConfig, S3Reader, options_of

Transform = Callable[[S3Reader], Any]


def identity(item: S3Reader) -> S3Reader:
    """Return the reader itself."""
    return item


class PrefixLister(S3FileLister):
    """Yield the URL of each object of a prefix, as `list_files_by_s3` does; its `allow_empty` is out of reach here."""

    on_nothing = "there are no objects with this prefix"


class S3IterableDataset(OneToOne[Any]):
    """Yield what `transform` makes of each object, an `S3Reader`: of a prefix, or of a list.

    Make it by `from_prefix` or `from_objects`. With `enable_sharding`, the workers of torch's `DataLoader` and the
    ranks of `torch.distributed` that read by one share the objects, as after `sharding_filter`; else all of them read
    all. `endpoint` and `s3client_config` are for other servers.

    Reading raises FileNotFoundError for a prefix without objects.

    >>> dataset = S3IterableDataset.from_objects(["s3://bucket/a", "s3://bucket/b"], region="us-east-1")
    >>> [item.key for item in dataset]
    ['a', 'b']
    """

    traits = ("opens",)

    def __init__(
        self,
        source: IterDataPipe[str],
        region: str,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: S3ClientConfig | None = None,
        enable_sharding: bool = False,
    ) -> None:
        self.source: IterDataPipe[str] = source.sharding_filter() if enable_sharding else source
        self.region = region
        self.endpoint = endpoint
        self.transform = transform
        self.s3client_config = s3client_config
        self.enable_sharding = enable_sharding

    @classmethod
    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def from_prefix(
        cls,
        s3_uri: str,
        *,
        region: str,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: S3ClientConfig | None = None,
        enable_sharding: bool = False,
    ) -> Self:
        """Return the data set of all objects whose addresses begin with a prefix, in the order of their keys."""
        urls = _urls_below(s3_uri, region, endpoint, s3client_config)
        return cls(urls, region, endpoint, transform, s3client_config, enable_sharding)

    @classmethod
    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def from_objects(
        cls,
        object_uris: str | Iterable[str],
        *,
        region: str,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: S3ClientConfig | None = None,
        enable_sharding: bool = False,
    ) -> Self:
        """Return the data set of these objects, in this order."""
        urls = IterableWrapper(_as_list(object_uris))
        return cls(urls, region, endpoint, transform, s3client_config, enable_sharding)

    def __getstate__(self) -> dict[str, Any]:
        return _with_any_transform(super().__getstate__())

    def _function(self) -> Callable[[str], Any]:
        return partial(_item, self.transform, options_of(self.region, self.endpoint, self.s3client_config))


class S3MapDataset(MapDataPipe[Any]):
    """Give what `transform` makes of an object, an `S3Reader`, by its number: of a prefix, or of a list.

    Make it by `from_prefix` or `from_objects`. A prefix is listed once, when the first item or the length is needed;
    workers that start later get the list. `endpoint` and `s3client_config` are for other servers.

    Raises FileNotFoundError for a prefix without objects, and IndexError for a number that is out of range.

    >>> dataset = S3MapDataset.from_objects(["s3://bucket/a", "s3://bucket/b"], region="us-east-1")
    >>> len(dataset), dataset[1].key
    (2, 'b')
    """

    payload = ("_urls",)

    def __init__(
        self,
        objects: str | list[str],
        region: str,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: S3ClientConfig | None = None,
    ) -> None:
        self.objects = objects
        self.region = region
        self.endpoint = endpoint
        self.transform = transform
        self.s3client_config = s3client_config
        self._urls: list[str] | None = None

    @classmethod
    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def from_prefix(
        cls,
        s3_uri: str,
        *,
        region: str,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: S3ClientConfig | None = None,
    ) -> Self:
        """Return the data set of all objects whose addresses begin with a prefix, in the order of their keys."""
        return cls(s3_uri, region, endpoint, transform, s3client_config)

    @classmethod
    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def from_objects(
        cls,
        object_uris: str | Iterable[str],
        *,
        region: str,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: S3ClientConfig | None = None,
    ) -> Self:
        """Return the data set of these objects, in this order."""
        return cls(_as_list(object_uris), region, endpoint, transform, s3client_config)

    def __getitem__(self, index: Any) -> Any:
        expect_whole("an index", index, least=None)
        url = self._found()[index]
        return _item(self.transform, options_of(self.region, self.endpoint, self.s3client_config), url)

    def __len__(self) -> int:
        return len(self._found())

    def __getstate__(self) -> dict[str, Any]:
        return _with_any_transform(super().__getstate__())

    def _found(self) -> list[str]:
        if not isinstance(self.objects, str):
            return self.objects
        if self._urls is None:
            self._urls = [*_urls_below(self.objects, self.region, self.endpoint, self.s3client_config)]
        return self._urls


class _Carried:
    """Pickles a function by cloudpickle, as what it is: torch's loaders pickle by pickle, which takes no lambda."""

    def __init__(self, fn: Transform) -> None:
        self.fn = fn

    def __call__(self, item: S3Reader) -> Any:
        return self.fn(item)

    def __deepcopy__(self, copied: Any) -> Transform:
        return self.fn

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.loads, (cloudpickle.dumps(self.fn),)


def _with_any_transform(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "transform": _Carried(state["transform"])} if "transform" in state else state


def _item(transform: Transform, options: Any, url: str) -> Any:
    return transform(S3Reader(url, options))


def _as_list(uris: str | Iterable[str]) -> list[str]:
    return [uris] if isinstance(uris, str) else [*uris]


def _urls_below(
    prefix: str, region: str, endpoint: str | None, s3client_config: S3ClientConfig | None
) -> IterDataPipe[str]:
    options = options_of(region, endpoint, s3client_config)
    return PrefixLister(IterableWrapper([prefix]), storage_options=options)
