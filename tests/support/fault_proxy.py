"""A server that passes requests on to another, and plays the faults of networks and object stores on request.

It is a process of its own, between a client and `rclone serve s3`. Of what there is, Toxiproxy knows nothing of HTTP,
mitmproxy sends no answers that break the protocol, and moto has no faults. Requests pass unchanged, Host included, so
that signatures fit. Answers pass with a Content-Length, whether they had one or not, and those of a range with the
status 206, which rclone leaves out and obstore insists upon.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import select
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

PATIENCE = 30.0
"""Seconds that the process may take to begin and to do what is asked, and that a stall without end lasts at most."""

PIECE = 1 << 16
"""Bytes that are passed on at a time."""

MOST_OF_A_HEAD = 1 << 20

REFUSAL = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}, as played</Message>{more}</Error>'


@dataclass(frozen=True)
class Fault:
    """What befalls requests that have `match` in them, as `requests` tells them.

    That is those up to the `times`-th for the same bytes, or all; of these, a share of `rate`.

    `reset`, `cut` (the connection ends as if all were said) and `stall` strike when a share `at` of the body was sent,
    or before the answer where that is None. After `seconds` a stall goes on; without, it does not. `status` is an error
    that the server did not send, with the `code` that S3 gives as its reason; 200 is the page of a gateway. `length`
    adds to the Content-Length, or takes from it; the body is sent whole, and after it the connection ends, or is silent
    for `seconds` before.
    """

    kind: Literal["reset", "cut", "stall", "status", "length"]
    match: str = "GET "
    times: int | None = None
    rate: float = 1.0
    at: float | None = 0.5
    seconds: float | None = None
    status: int = 503
    code: str = "SlowDown"
    length: int = 0


class FaultProxy:
    """What a test tells the proxy, and asks it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.endpoint = f"http://127.0.0.1:{self._answer()}"

    def play(self, *faults: Fault, seed: int = 0) -> None:
        """Play these faults from now on, of which the first that fits befalls a request, and count anew.

        Which requests they befall depends on the seed, what is asked for and how often, not on what else is going on.
        """
        self._tell("play", seed, [asdict(fault) for fault in faults])

    def refuse(self) -> None:
        """End all connections, and refuse new ones until `accept`."""
        self._tell("refuse")

    def accept(self) -> None:
        self._tell("accept")

    def requests(self) -> Counter[str]:
        """How often each request came: as `GET /bucket/key`, and for a range as `GET /bucket/key bytes=0-9`."""
        return Counter(self._tell("counted", "requests"))

    def played(self) -> Counter[str]:
        """How many faults of each kind were played."""
        return Counter(self._tell("counted", "played"))

    def _tell(self, *command: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert ready, f"the proxy did not answer within {PATIENCE} s"
        return json.loads(self._process.stdout.readline())


@contextmanager
def passing_on(endpoint: str) -> Iterator[FaultProxy]:
    """Run a proxy before the server at an endpoint."""
    address = urlsplit(endpoint)
    command = [sys.executable, __file__, str(address.hostname), str(address.port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield FaultProxy(process)
        finally:
            process.kill()
            process.wait(PATIENCE)


class Hangup(Exception):
    """The connection is to end."""


@dataclass
class Head:
    """The first line and the headers of a request or an answer."""

    first_line: str
    headers: list[str]

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Head:
        first_line, *headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        return cls(first_line, headers)

    def get(self, name: str) -> str:
        return next((line.partition(":")[2].strip() for line in self.headers if _is(line, name)), "")

    def drop(self, name: str) -> None:
        self.headers = [line for line in self.headers if not _is(line, name)]

    def set(self, name: str, value: object) -> None:
        self.drop(name)
        self.headers.append(f"{name}: {value}")

    @property
    def length(self) -> int:
        return int(self.get("Content-Length") or 0)

    @property
    def has_chunks(self) -> bool:
        return self.get("Transfer-Encoding") == "chunked"

    def __bytes__(self) -> bytes:
        return "\r\n".join([self.first_line, *self.headers, "", ""]).encode("latin-1")


def _is(line: str, name: str) -> bool:
    return line.partition(":")[0].lower() == name.lower()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    content = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        content += await reader.readexactly(size)
        await reader.readline()
    while await reader.readline() != b"\r\n":  # a trailer
        pass
    return content


async def _pieces(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await reader.read(min(length, PIECE))
        if not piece:
            raise EOFError
        length -= len(piece)
        yield piece


@dataclass(eq=False)
class Connection:
    """A client's connection, and that to the server behind."""

    proxy: Proxy
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    behind: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def serve(self) -> None:
        try:
            while True:
                await self.serve_one()
        except (Hangup, EOFError, ConnectionError):
            pass
        finally:
            self.writer.close()
            if self.behind is not None:
                self.behind[1].close()

    async def to_behind(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the connection to the server behind, which may have ended one that nobody used."""
        if self.behind is None or self.behind[0].at_eof():
            self.behind = await asyncio.open_connection(*self.proxy.behind, limit=MOST_OF_A_HEAD)
        return self.behind

    async def serve_one(self) -> None:
        request = await Head.read(self.reader)
        fault = self.proxy.fault_for(request)
        if request.get("Expect"):
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.drop("Expect")
        if request.has_chunks:
            body = await _chunks(self.reader)
            request.drop("Transfer-Encoding")
            request.set("Content-Length", len(body))
        else:
            body = await self.reader.readexactly(request.length)
        if fault is not None and fault.kind == "status":
            self.writer.write(_refusal(fault, request))
            return
        if fault is not None and fault.kind != "length" and fault.at is None:
            await self.befall(fault)
            fault = None
        behind, to_behind = await self.to_behind()
        to_behind.write(bytes(request) + body)
        answer = await Head.read(behind)
        await self.pass_back(request, answer, behind, fault)

    async def pass_back(self, request: Head, answer: Head, behind: asyncio.StreamReader, fault: Fault | None) -> None:
        if answer.get("Content-Range") and answer.first_line.split()[1] == "200":
            answer.first_line = "HTTP/1.1 206 Partial Content"
        if answer.has_chunks:
            whole = await _chunks(behind)
            answer.drop("Transfer-Encoding")
            answer.set("Content-Length", len(whole))
            behind = asyncio.StreamReader()
            behind.feed_data(whole)
        length = 0 if request.first_line.startswith("HEAD ") else answer.length
        place = length  # where the fault strikes
        if fault is not None and fault.kind == "length":
            answer.set("Content-Length", max(answer.length + fault.length, 0))
        elif fault is not None and fault.at is not None:
            place = int(length * fault.at)
        self.writer.write(bytes(answer))
        async for piece in _pieces(behind, place):
            self.writer.write(piece)
            await self.writer.drain()
        if fault is not None:
            await self.befall(fault)
        async for piece in _pieces(behind, length - place):
            self.writer.write(piece)
            await self.writer.drain()

    async def befall(self, fault: Fault) -> None:
        if fault.kind == "reset":
            await asyncio.sleep(0.02)  # or what was sent before might be lost with the connection
            _reset(self.writer)
        elif fault.kind == "stall" and fault.seconds is not None:
            await asyncio.sleep(fault.seconds)
            return
        elif fault.kind != "cut":
            silence = PATIENCE if fault.kind == "stall" else fault.seconds or 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self.reader.read(1), silence)  # until the client hangs up
        raise Hangup


def _refusal(fault: Fault, request: Head) -> bytes:
    token = request.get("X-Amz-Security-Token")  # S3 tells it to whoever sends one that is not good any more
    text = REFUSAL.format(code=fault.code, more=f"<Token-0>{token}</Token-0>" if token else "").encode()
    if fault.status == 200:
        text = b"<html>the page of a gateway</html>"
    head = Head(f"HTTP/1.1 {fault.status} {fault.code}", ["Content-Type: application/xml"])
    head.set("Content-Length", len(text))
    return bytes(head) + (b"" if request.first_line.startswith("HEAD ") else text)


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # it has ended already
        made = writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxy:
    """What the process does."""

    def __init__(self, host: str, port: int) -> None:
        self.behind = host, port
        self.seed = 0
        self.faults: list[Fault] = []
        self.requests: Counter[str] = Counter()
        self.played: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.port_holder = _bound()  # so that nobody else gets the port while connections are refused
        self.server: asyncio.Server | None = None

    async def run(self) -> None:
        commands = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        await self.accept()
        print(self.port_holder.getsockname()[1], flush=True)
        while line := await commands.readline():
            name, *arguments = json.loads(line)
            print(json.dumps(await getattr(self, name)(*arguments)), flush=True)

    async def play(self, seed: int, faults: list[dict[str, Any]]) -> None:
        self.seed = seed
        self.faults = [Fault(**fault) for fault in faults]
        self.requests.clear()
        self.played.clear()

    async def counted(self, what: Literal["requests", "played"]) -> Counter[str]:
        return self.requests if what == "requests" else self.played

    async def accept(self) -> None:
        if self.server is not None and self.server.is_serving():
            return
        listener = _bound(self.port_holder.getsockname()[1])
        self.server = await asyncio.start_server(self.serve, sock=listener, backlog=1024, limit=MOST_OF_A_HEAD)

    async def refuse(self) -> None:
        assert self.server is not None
        self.server.close()
        for connection in self.connections:
            _reset(connection.writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.remove(connection)

    def fault_for(self, request: Head) -> Fault | None:
        asked = f"{request.first_line.rpartition(' ')[0]} {request.get('Range')}".strip()
        asked = re.sub(r"uploadId=[^&]*&(?=partNumber)", "", asked)  # clients name the two in different orders
        self.requests[asked] += 1
        count = self.requests[asked]
        for number, fault in enumerate(self.faults):
            fits = fault.match in asked and (fault.times is None or count <= fault.times)
            if fits and random.Random(f"{self.seed} {number} {asked} {count}").random() < fault.rate:
                self.played[fault.kind] += 1
                return fault
        return None


def _bound(port: int = 0) -> socket.socket:
    made = socket.socket(proto=socket.IPPROTO_TCP)  # only where it is named, asyncio turns Nagle's delays off
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


if __name__ == "__main__":
    asyncio.run(Proxy(sys.argv[1], int(sys.argv[2])).run())
