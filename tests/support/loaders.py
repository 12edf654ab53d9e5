"""Loaders and reading services that are explained, not read."""

from __future__ import annotations

from typing import Any

import penstock as ps


def workers(number: int = 2, **more: Any) -> ps.MultiProcessingReadingService:
    return ps.MultiProcessingReadingService(number, **more)


def ranks(number: int, **more: Any) -> ps.DistributedReadingService:
    return ps.DistributedReadingService(data_rank=0, data_ranks=number, **more)


def loader(chain: Any, service: Any = None) -> ps.DataLoader2[Any]:
    return ps.DataLoader2(chain, reading_service=service)
