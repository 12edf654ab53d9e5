"""Which owners' files are trusted: files that another user may have planted are neither read nor written."""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["Untrusted", "expect_own_folder", "expect_trusted", "expect_trusted_folder", "open_trusted"]


class Untrusted(PermissionError):
    """Another user may have planted the file."""


def open_trusted(path: str, flags: int) -> int:
    """Return the descriptor of a shared file, opened without following links; raise Untrusted for another user's."""
    try:
        # O_NONBLOCK: do not wait for a pipe's other end.
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):  # Linux raises ELOOP, FreeBSD EMLINK
            raise
        raise Untrusted(errno.ELOOP, "a symbolic link is where a file belongs, and is not followed", path) from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Untrusted(errno.EACCES, "what is there is no file", path)
        if flags & os.O_RDWR and status.st_nlink > 1:
            raise Untrusted(errno.EMLINK, "the file has another name, too, and is not written to", path)
        expect_trusted(path, status)
    except BaseException:
        os.close(file)
        raise
    return file


def expect_trusted(path: str, status: os.stat_result) -> None:
    """Raise Untrusted for a folder entry that belongs to neither this user, root nor the folder's owner.

    In a folder writable by its group but not by others, all entries are trusted: it is shared on purpose.
    """
    if _is_own(status):
        return
    folder = os.stat(os.path.dirname(path) or ".")
    if status.st_uid != folder.st_uid and not _is_shared(folder):
        raise Untrusted(
            errno.EACCES,
            f"it belongs to {_name_of(status.st_uid)}, who may have planted it: remove it, or, to share its folder "
            "with a group, chmod the folder to 2770",
            path,
        )


def expect_trusted_folder(path: str) -> os.stat_result:
    """Raise Untrusted if another user made the folder, or one above it, where everybody may write (as in /tmp).

    The target of a symbolic link is checked the same way.
    """
    for each in {os.path.abspath(path), os.path.realpath(path)}:
        _expect_trusted_all_the_way(each)
    return os.stat(path or os.curdir)


def _expect_trusted_all_the_way(path: str) -> None:
    above = path
    while above != os.path.dirname(above):
        folder, above = above, os.path.dirname(above)
        status = os.lstat(folder)
        if not _is_own(status) and os.stat(above).st_mode & stat.S_IWOTH and not _is_of_a_group_of_ours(status):
            raise Untrusted(
                errno.EACCES,
                f"{'the folder' if folder == path else folder} belongs to {_name_of(status.st_uid)}, and everybody may "
                "make some there: use another, or, to share it with a group of yours, have it chmoded to 2770",
                path,
            )


def expect_own_folder(path: str) -> None:
    """Raise Untrusted if a subfolder of a shared folder is a link, not a folder, or another user's."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise Untrusted(errno.ENOTDIR, "a folder belongs there, and what is there is none, or a symbolic link", path)
    expect_trusted(path, status)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _is_shared(folder: os.stat_result) -> bool:
    return bool(folder.st_mode & stat.S_IWGRP) and not folder.st_mode & stat.S_IWOTH


def _is_of_a_group_of_ours(status: os.stat_result) -> bool:
    shared = stat.S_ISDIR(status.st_mode) and _is_shared(status)
    return shared and status.st_gid in (os.getegid(), *os.getgroups())


def _name_of(user: int) -> str:
    import pwd  # not at the top: Windows has none

    try:
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    except KeyError:
        return f"user {user}"
