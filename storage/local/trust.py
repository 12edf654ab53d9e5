"""Which files of shared folders are trusted: those that no other user may have planted."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress


class Untrusted(PermissionError):
    """Another user may have planted the file."""


def expect_trusted(path: str) -> None:
    """Raise Untrusted if another user may have planted a file, or a folder above it.

    Where everybody may write, as in /tmp, only what belongs to this user, to root or to the owner of the folder is
    trusted, and a folder that is shared with a group of this user. Elsewhere, all is. The target of a symbolic link is
    checked the same way.
    """
    for each in {os.path.abspath(path), os.path.realpath(path)}:
        entry = each
        while (folder := os.path.dirname(entry)) != entry:
            with suppress(FileNotFoundError):
                _expect_trusted_entry(os.lstat(entry), os.stat(folder), entry, path)
            entry = folder


def _expect_trusted_entry(status: os.stat_result, folder: os.stat_result, entry: str, path: str) -> None:
    is_trusted = status.st_uid in (os.geteuid(), 0, folder.st_uid)
    if folder.st_mode & stat.S_IWOTH and not is_trusted and not _is_of_a_group_of_ours(status):
        raise Untrusted(
            errno.EACCES,
            f"{entry} belongs to {_name_of(status.st_uid)}, who may have planted it, since everybody may make files "
            "there: remove it, or use another folder; to share one with a group of yours, have it chmoded to 2770",
            path,
        )


def _is_of_a_group_of_ours(status: os.stat_result) -> bool:
    is_shared = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWGRP and not status.st_mode & stat.S_IWOTH
    return bool(is_shared) and status.st_gid in (os.getegid(), *os.getgroups())


def _name_of(user: int) -> str:
    import pwd  # not at the top: Windows has none

    try:
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    except KeyError:
        return f"user {user}"
