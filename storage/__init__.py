"""Addresses: opened, listed, read, written atomically, retried, kept secret. `addresses` parses them.

Operators call `reading`, `listing` and `writing`. Below them are `objects` and `ranged` (obstore), `stores` and
`clients` (one per bucket), `file_systems` (fsspec) and `web` (requests and aiohttp). `errors` translates failures;
`retrying` decides on retries. `local` handles folders that many processes share.
"""
