"""Streams: ranges, checksums, compression and archives."""
