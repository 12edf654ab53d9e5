"""Addresses: opened, listed, read, written whole, tried again, kept secret. `addresses` says who reads which.

`reading`, `listing` and `writing` are what operators call. Below them are `objects` and `ranged` (obstore), `stores`
and `clients` (one for each bucket), `file_systems` (fsspec) and `web` (requests and aiohttp); `errors` and `retrying`
say what a failure is called, and whether there is another attempt. `kept_files`, `locks` and `owners` are for folders
that many processes share.
"""
