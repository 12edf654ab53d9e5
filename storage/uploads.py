"""Multipart uploads to S3, several parts at a time."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

import numpy as np

from ..errors.notes import add_note
from ..errors.policy import ErrorPolicy
from ..workers.threads import Threads
from .addresses import Address, Client
from .clients import OPTIONS_OF_AMAZON, amazon_client, environment
from .errors import PERHAPS_WRITTEN, in_plain_words
from .retrying import trying_again

AT_ONCE = 3
"""How many parts are sent concurrently."""

_MOST_CLIENTS = 16
"""How many clients are cached: creating one is slow."""

_clients: dict[tuple[Any, ...], Any] = {}
_making_client = threading.Lock()


def is_sent_in_parts(address: Address) -> bool:
    """Say whether `sending` supports an address with its s3fs options."""
    of_amazon = address.of_amazon and address.client is Client.OBSTORE
    return of_amazon and address.options.keys() <= {*OPTIONS_OF_AMAZON}


@contextmanager
def sending(address: Address, size: int, counted_by: ErrorPolicy | None) -> Iterator[IO[bytes]]:
    """Open an object for writing in parts of `size` bytes: it appears once all is written, and is aborted on an error.

    A request is retried up to five times after transient errors; `counted_by` counts the retries.

    Not by obstore: it aborts an upload while parts are being sent; those may stay in the store forever.
    """
    upload = _Upload(address, size, ErrorPolicy(trying_again("raise"), counted_by=counted_by))
    try:
        yield upload  # type: ignore[misc]  # enough of a file for writing
        upload.complete()
    except BaseException as error:
        upload.take_back(error)
        raise
    finally:
        upload.close()


class _Upload(io.RawIOBase):
    def __init__(self, address: Address, size: int, attempts: ErrorPolicy) -> None:
        self._name = address.name
        self._place = {"Bucket": address.bucket, "Key": address.key}
        if address.options.get("requester_pays"):
            self._place["RequestPayer"] = "requester"
        self._client = in_plain_words(address.url, _client_of, address.options)
        self._attempts = attempts
        self._ask: Any = attempts.wrap(lambda request: in_plain_words(address.url, request))
        self._size = size
        self._part = io.BytesIO()  # not bytes, which a connection must send within its timeout
        self._sent = 0
        self._written = 0
        self._parts: dict[int, Any] = {}
        self._threads = Threads(lambda: self._send, AT_ONCE, "penstock-upload")
        self._id: str | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        left = np.frombuffer(content, np.uint8).data
        self._written += (length := len(left))
        while left:
            if self._part.tell() == self._size:
                self._submit()
                self._part = _allocated(self._size)
            taken = self._part.write(left[: self._size - self._part.tell()])
            left = left[taken:]
        return length

    def complete(self) -> None:
        """Complete the upload: the object appears."""
        if self._id is None:
            self._expect(self._call("put_object", Body=self._part), "ETag")
            return
        self._submit()
        while len(self._parts) < self._sent:
            self._arrive()
        self._threads.stop()
        parts = [self._parts[number] for number in sorted(self._parts)]
        try:
            answer = self._call("complete_multipart_upload", UploadId=self._id, MultipartUpload={"Parts": parts})
        except FileNotFoundError:  # an earlier attempt may have completed it, and its answer was lost
            answer = {}
        self._expect(answer, "ETag", "Key", "Location")

    def _expect(self, answer: Mapping[str, Any], *names: str) -> None:
        """Raise OSError if an answer has none of these names: a gateway's page has status 200, too."""
        if answer.keys().isdisjoint(names):
            raise OSError(errno.EIO, PERHAPS_WRITTEN, self._name)

    def take_back(self, error: BaseException) -> None:
        """Abort the upload, so that the store drops its parts; add a note to `error` if that fails."""
        try:
            self._attempts.give_up()
            self._threads.stop()  # a part sent after the abort would stay
            self._attempts.take_up()
            if self._id is not None:
                with suppress(FileNotFoundError):  # there are no parts: it was completed, and the answer was lost
                    self._call("abort_multipart_upload", UploadId=self._id)
        except Exception as failure:
            add_note(
                error,
                f"the parts sent so far could not be removed, and take space until the store drops them: {failure!r}",
            )

    def close(self) -> None:
        """Free the memory now: the threads refer to this upload, which delays it until garbage collection."""
        self._part.close()
        super().close()

    def _submit(self) -> None:
        """Submit the current part, after waiting for a free slot."""
        if self._id is None:
            answer = self._call("create_multipart_upload")
            self._expect(answer, "UploadId")
            self._id = answer["UploadId"]
        while self._sent - len(self._parts) == AT_ONCE:
            self._arrive()
        self._sent += 1
        self._part.truncate()
        self._threads.submit(self._sent, (self._sent, self._part))

    def _arrive(self) -> None:
        number, part, error = self._threads.arrivals.get()
        if error is not None:
            raise error
        self._parts[number or 0] = part

    def _send(self, task: tuple[int, io.BytesIO]) -> dict[str, Any]:
        number, part = task
        answer = self._call("upload_part", UploadId=self._id, PartNumber=number, Body=part)
        if "ETag" not in answer:
            raise OSError(errno.EIO, "the server gave no ETag for a part", self._name)
        sums = {name: value for name, value in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}
        return {"PartNumber": number, "ETag": answer["ETag"], **sums}

    def _call(self, method: str, **arguments: Any) -> Any:
        def request() -> Any:
            if body is not None:
                body.seek(0)
            return getattr(self._client, method)(**self._place, **arguments)

        body = arguments.get("Body")
        return self._ask(request)


def _allocated(size: int) -> io.BytesIO:
    """Return a buffer with memory for `size` bytes: one that grows takes up to twice as much."""
    buffer = io.BytesIO()
    buffer.seek(size - 1)
    buffer.write(b"\0")
    buffer.seek(0)
    return buffer


def _client_of(options: Mapping[str, Any]) -> Any:
    """Return the upload client for these options; each process has its own."""
    known_as = os.getpid(), repr(sorted(options.items())), environment()
    with _making_client:
        client = _clients.get(known_as)
        if client is None:
            client = amazon_client(options, AT_ONCE)
            while len(_clients) >= _MOST_CLIENTS:
                _clients.pop(next(iter(_clients)))
            _clients[known_as] = client
        return client
