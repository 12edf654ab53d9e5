"""Text for pictures and pages: escaped, cut, and without characters that change what surrounds it."""

from __future__ import annotations

import re
from html import escape

from rich.cells import cell_len, set_cell_size

_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML forbids, and control characters."""
_TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the direction of the text after them."""

_CODE = re.compile("`([^`]+)`")


def cleaned(text: str) -> str:
    """Return text without characters that XML forbids, or that turn the direction of what follows."""
    return _TURNING.sub("", _UNFIT.sub("\ufffd", text))


def escaped(text: str) -> str:
    """Return text for XML and HTML.

    >>> escaped('<a & "b">')
    '&lt;a &amp; &quot;b&quot;&gt;'
    """
    return escape(cleaned(text))


def sentence_in_page(text: str) -> str:
    """Return a sentence for HTML, with what is between backticks as code.

    >>> sentence_in_page("Call `len(a < b)`.")
    'Call <code>len(a &lt; b)</code>.'
    """
    return _CODE.sub(r"<code>\1</code>", escaped(text))


def in_words(items: int) -> str:
    """Return a number of items as text.

    >>> in_words(1), in_words(1200)
    ('1 item', '1,200 items')
    """
    return f"{items:,} item{'' if items == 1 else 's'}"


def with_unit(size: float) -> str:
    """Return a size in bytes with its unit.

    >>> with_unit(256 * 2**20), with_unit(1500), with_unit(3)
    ('256 MiB', '1.46 KiB', '3 bytes')
    """
    unit = "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.3g} {unit}" if unit != "bytes" else f"{size:.0f} bytes"


def cut(text: str, most: float) -> str:
    r"""Return a text on one line, cut where it would be longer than `most` columns; wide characters take two.

    >>> cut("a long\ntext", 8), cut("水と水", 4), cut("short", 8)
    ('a long …', '水 …', 'short')
    """
    text = " ".join(text.split())
    return text if cell_len(text) <= most else f"{set_cell_size(text, int(most) - 1)}…"
