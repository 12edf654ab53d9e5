"""Addresses that hold a secret, hunter2, each in another place."""

from __future__ import annotations

SECRET_URLS = (
    "https://me:hunter2@host/a.tar?X-Amz-Signature=hunter2",
    "http://host/a.tar;sig=hunter2",
    "az://box/host/a.tar?hunter2",
    "sftp://host/a.tar#hunter2",
    "zip://b.txt::https://host/a.tar;hunter2",
)
