"""Objects of S3 as files: their options, the reader, and checkpoints."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

from ...checkpoint.files import writing
from ...errors.checks import takes_only
from ...errors.secrets import Options
from ...registry import ErrorPolicy
from ...storage.addresses import address_of
from ...storage.objects import open_by_fsspec
from ...storage.reading import open_file
from ...storage.retrying import trying_again
from ...storage.stores import is_lost
from ...storage.streaming.streams import checked_path

NO_CONSTRUCTOR = "leave it out: a reader reads small objects whole, and large ones by the ranges asked for"
"""The hint for `reader_constructor=`."""


@dataclass(frozen=True)
class S3ClientConfig:
    """Settings of the client, for `s3client_config=`; the rates, part sizes and attempts are penstock's own.

    >>> S3ClientConfig(unsigned=True).unsigned
    True
    """

    throughput_target_gbps: float = 10.0
    part_size: int = 8 * 2**20
    unsigned: bool = False
    force_path_style: bool = False
    max_attempts: int = 10
    profile: str | None = None


def options_of(region: str | None, endpoint: str | None = None, config: S3ClientConfig | None = None) -> Options:
    """Return the connector's settings as storage options."""
    config = config or S3ClientConfig()
    given = {
        "client_kwargs": {"region_name": region} if region else None,
        "endpoint_url": endpoint,
        "anon": config.unsigned,
        "profile": config.profile,
        "config_kwargs": {"s3": {"addressing_style": "path"}} if config.force_path_style else None,
    }
    return Options({name: value for name, value in given.items() if value})


class S3Reader(io.BufferedReader):
    """A file of the bytes of an object, with its `bucket` and `key`, which is opened by the first read or seek.

    Raises ValueError for an address that is not of S3; reading raises FileNotFoundError for a missing object, and
    PermissionError for one that may not be read.

    >>> reader = S3Reader("s3://bucket/images/0.png", {})
    >>> reader.bucket, reader.key
    ('bucket', 'images/0.png')
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        address = address_of(checked_path(url), options)
        if not address.of_amazon:
            raise ValueError(f"objects of S3 have addresses such as s3://bucket/key, and this is {url!r:.100}")
        self.bucket, self.key = address.bucket, address.key
        self._from = url, options
        super().__init__(_OpenedLate(url, options))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), self._from  # a copy begins at the start


class _OpenedLate(io.RawIOBase):
    """The bytes of an object, which is opened when they are needed."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.name = url
        self._options = options

    @cached_property
    def _file(self) -> IO[bytes]:
        # obstore does not survive a fork, and torch's workers may be forked after this process has read; s3fs does.
        def opened(url: str) -> Any:
            return open_by_fsspec(address_of(url, self._options)) if is_lost() else open_file(url, self._options)

        attempt: Any = ErrorPolicy(trying_again("raise")).wrap(opened)
        file: IO[bytes] = attempt(self.name)[0]
        return file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]

    def readall(self) -> bytes:
        return self._file.read()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell() if "_file" in vars(self) else 0

    def close(self) -> None:
        if "_file" in vars(self):
            self._file.close()
        super().close()


class S3Checkpoint:
    """Files for `torch.save` and `torch.load` in S3: `writer(uri)` and `reader(uri)`, for `with` statements.

    What is written appears once it is whole, and not at all after an error.

    >>> checkpoint = S3Checkpoint(region="us-east-1")
    >>> checkpoint.reader("s3://bucket/run/epoch0.ckpt").key
    'run/epoch0.ckpt'
    """

    def __init__(self, region: str, endpoint: str | None = None, s3client_config: S3ClientConfig | None = None) -> None:
        self.region = region
        self.endpoint = endpoint
        self._options = options_of(region, endpoint, s3client_config)

    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def reader(self, s3_uri: str) -> S3Reader:
        """Return a file to read an object from."""
        return S3Reader(s3_uri, self._options)

    def writer(self, s3_uri: str) -> AbstractContextManager[IO[bytes]]:
        """Return a file to write an object to."""
        return writing(checked_path(s3_uri), self._options)
