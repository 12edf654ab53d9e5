"""Runs programs in processes that are forked off a Python which has imported torch; for `programs.python`.

`import torch` takes 1.3 s of a processor, and a program with a loader imports it twice: its fork server does too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

SOCKET = "socket"
"""The name of the server's socket, in the folder of the executable: nobody else may connect to it."""

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

AT_START = {"PYTHONDEVMODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONOPTIMIZE", "PYTHONUTF8", "PYTHONWARNINGS"}
"""What Python reads when it starts, and so has read when the server did."""


def ask(command: list[str]) -> int:
    """Have the server beside an executable run its command with the streams of this process; return its exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(os.path.join(os.path.dirname(command[0]), SOCKET))
        request = {"command": command, "environment": dict(os.environ), "folder": os.getcwd()}
        _send(server, [0, 1, 2], asked_by=os.getpid(), **request)
        process = int(server.recv(64))
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(process, number))
        status = os.waitstatus_to_exitcode(int(server.recv(64)))
    if status < 0:  # a signal ended it, and is to end this process
        with suppress(OSError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def serve(folder: str) -> socket.socket | None:
    """Fork off a process for each program that is asked for, until standard input ends; return there who asks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(os.path.join(folder, SOCKET))
        listener.listen(100)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a program ends unseen
        print("ready", flush=True)
        while select.select([listener, 0], [], [])[0] == [listener]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                return connection
            connection.close()
    return None


def _run_for(connection: socket.socket) -> None:
    """Run a program in a process of its own, and tell who asked how it ended; who is gone wants it killed."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams = _receive(connection)
    file = os.path.join(os.path.dirname(request["command"][0]), str(request.pop("asked_by")))
    if (process := os.fork()) != 0:
        with open(file, "w") as output:
            output.write(str(process))
        connection.send(str(process).encode())
        if connection in select.select([connection, os.pidfd_open(process)], [], [])[0]:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        with suppress(BrokenPipeError):
            connection.send(str(status).encode())
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    _keep_a_fork_server()
    _run(**request)


def _keep_a_fork_server() -> None:
    """Let a child of this process become the fork server of multiprocessing, if the program starts one."""
    from multiprocessing import util

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if (child := os.fork()) == 0:
        ours.close()
        request, descriptors = _receive(theirs)
        theirs.close()
        _place(descriptors, request.pop("wanted"))
        _run(**request)
        sys.exit()

    theirs.close()
    start = util.spawnv_passfds

    def spawnv_passfds(path: bytes, arguments: list[Any], descriptors: list[int]) -> int:
        code = os.fsdecode(arguments[-1])
        if "multiprocessing.forkserver" not in code or ours.fileno() == -1:
            return start(path, arguments, descriptors)
        request = {"command": [sys.executable, "-c", code], "environment": dict(os.environ), "folder": os.getcwd()}
        _send(ours, descriptors, wanted=list(descriptors), **request)
        ours.close()
        return child

    util.spawnv_passfds = spawnv_passfds


def _place(descriptors: list[int], wanted: list[int]) -> None:
    """Move file descriptors to other numbers, and close all others but the three streams."""
    above = max([*wanted, *descriptors]) + 1
    for descriptor in descriptors:
        os.dup2(descriptor, above + descriptor)
    for descriptor, number in zip(descriptors, wanted, strict=True):
        os.dup2(above + descriptor, number)
    for begin, end in zip([2, *sorted(wanted)], [*sorted(wanted), os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(begin + 1, end)


def _run(command: list[str], environment: dict[str, str], folder: str) -> None:
    """Do what this command of Python does."""
    if changed := AT_START & {name for name, _ in environment.items() ^ os.environ.items()}:
        sys.exit(f"Python reads {', '.join(changed)} when it starts: use sys.executable")
    usual = [os.path.dirname(__file__), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    wanted = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = dict.fromkeys([*wanted, *(path for path in sys.path if path not in usual)])
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.orig_argv = command
    sys.executable, *arguments = command
    if arguments[:1] == ["-u"]:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        arguments = arguments[1:]
    match arguments:
        case ["-c", code, *rest]:
            exec(compile(code, "<string>", "exec"), _main("", ["-c", *rest]))
        case ["-m", module, *rest]:
            import runpy

            _main(folder, ["-m", *rest])
            runpy._run_module_as_main(module)  # type: ignore[attr-defined]
        case [] | ["-"]:
            exec(compile(sys.stdin.read(), "<stdin>", "exec"), _main("", arguments, __file__="<stdin>"))
        case [option, *_] if option.startswith("-"):
            sys.exit(f"Python reads {option} when it starts: use sys.executable")
        case [name, *_]:
            file = os.path.abspath(name)
            with open(file, "rb") as program:
                code_of_file = compile(program.read(), file, "exec")
            exec(code_of_file, _main(os.path.dirname(file), arguments, __file__=file))


def _main(first: str, arguments: list[str], **names: str) -> dict[str, Any]:
    """Begin a main module, with its folder first in the path; return its names."""
    sys.path.insert(0, first)
    sys.argv = arguments
    _replaced.append(sys.modules["__main__"])
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main).update(names)
    return vars(main)


_replaced: list[ModuleType] = []
"""The main modules before the program's: a module that ends takes its functions' globals with it."""


def _send(connection: socket.socket, descriptors: list[int], **request: Any) -> None:
    socket.send_fds(connection, [json.dumps(request).encode()], descriptors)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request and the descriptors sent with it; end this process if there comes none."""
    data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 20)
    if not data:
        os._exit(0)
    return json.loads(data), descriptors


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        import gc

        import penstock.runner.workers.worker  # noqa: F401

        gc.collect()
        gc.freeze()  # to look at an object is to copy its memory
        if (connection := serve(sys.argv[2])) is not None:
            _run_for(connection)
    else:
        sys.exit(ask(sys.argv[1:]))
