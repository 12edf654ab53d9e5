"""The first items of a chain as HTML for a notebook, else as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..errors.notes import describe_item
from ..errors.short_values import date_in_words
from ..pipes.bases.progress_bar import is_notebook, known_length
from ..state.copying import copy_to_look_at
from ..state.seeds import generators_kept
from .media import image_in_page, images_in, numpy_of, sound_in_page
from .pictures.picture import Picture
from .text import cut, escaped, in_words

_MOST_MEDIA = 2_000_000
"""Characters of images and sounds in one page. What comes after is described."""
_MOST_FIELDS, _MOST_ROWS, _MOST_PARTS = 12, 6, 8
_DEEPEST = 3
_FEW_NUMBERS, _MANY_NUMBERS = 8, 50_000_000
_EDGE = "1px solid rgba(128,128,128,.35)"
_FAINT = "opacity:.65;font-size:.9em"


def show_items(pipe: Any, n: int) -> None:
    """Show a chain and its first items: in a notebook as HTML, else as text."""
    try:
        copied = copy_to_look_at(pipe)
    except Exception:  # a part cannot be copied, or read twice
        copied = pipe
    with nullcontext() if copied is pipe else generators_kept():
        items = copied.take(n)
    preview = Preview(pipe, items, n)
    if is_notebook():
        from IPython.display import display

        display(preview)  # type: ignore[no-untyped-call, unused-ignore]
    else:
        print(preview)


class Preview:
    """Items of a chain, of which `n` were wanted, as text or HTML."""

    def __init__(self, pipe: Any, items: list[Any], n: int) -> None:
        self.picture = Picture(pipe)
        self.items = items
        self.count = _how_many(pipe, len(items), n)

    def __repr__(self) -> str:
        return "\n".join(
            [repr(self.picture), *(f"{place}: {describe_item(item)}" for place, item in enumerate(self.items))]
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _HtmlWriter().write(self)}


def _how_many(pipe: Any, found: int, wanted: int) -> str:
    items = in_words(found)
    if found < wanted:
        return f"all {items}" if found else "no items"
    length = known_length(pipe)
    return f"the first {items}" if length is None else f"{found:,} of {length:,} items"


class _HtmlWriter:
    """Writes items as HTML, with as many images and sounds as there is room for."""

    def __init__(self) -> None:
        self.room = _MOST_MEDIA

    def write(self, preview: Preview) -> str:
        """Return the HTML of the chain and its items."""
        rows = "".join(
            f'<div style="display:flex;gap:10px;padding:5px 0;border-top:{_EDGE}">'
            f'<div style="{_FAINT};min-width:2.5em;text-align:right">{place}</div>'
            f'<div style="overflow-x:auto">{self.value(item)}</div></div>'
            for place, item in enumerate(preview.items)
        )
        items = f'<div style="{_FAINT};padding:5px 0">{preview.count}</div>{rows}'
        return (  # items are below the picture where they have no room beside it
            f'<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">'
            f'<div style="overflow-x:auto;flex:none;max-width:100%">{preview.picture.svg}</div>'
            f'<div style="flex:1 1 380px;min-width:0">{items}</div></div>'
        )

    def value(self, value: Any, depth: int = 0) -> str:
        """Return a value as what it is: an image, a sound, a table, the parts that it has, or a line of text."""
        try:
            found = self._images(value, depth) or self._sound(value)
            if not found and depth < _DEEPEST:
                found = self._table(value, depth) or self._parts(value, depth)
            return found or self._line(value)
        except Exception:  # of a value's own methods, say
            return self._text(value)

    def _images(self, value: Any, depth: int) -> str:
        several = images_in(value)
        if not several and isinstance(value, (list, tuple)) and len(value) > 1:
            found = [images_in(part) for part in value[:16]]
            several = [part[0] for part in found] if all(len(part) == 1 for part in found) else []
        if not several or self.room <= 0:
            return ""
        written = "".join(self._image(image) for image in several)
        if not written:
            return ""
        grid = f'<div style="display:flex;flex-wrap:wrap;gap:4px;max-width:680px">{written}</div>'
        return grid if depth else f'{grid}<div style="{_FAINT}">{self._text_of(value)}</div>'

    def _image(self, image: Any) -> str:
        address = image_in_page(image) if self.room > 0 else None
        if address is None:
            return ""
        self.room -= len(address)
        text = self._text_of(image)
        return f'<img style="border:{_EDGE}" src="{address}" alt="{text}" title="{text}">'

    def _sound(self, value: Any) -> str:
        sound = sound_in_page(value) if self.room > 0 else None
        if sound is None:
            return ""
        self.room -= len(sound.address)
        rest = value[2:] if isinstance(value, (tuple, list)) else ()
        more = "".join(f"<div>{self.value(part, _DEEPEST)}</div>" for part in rest[:_MOST_PARTS])
        player = f'<audio controls preload="metadata" src="{sound.address}"></audio>'
        return f'{player}<div style="{_FAINT}">{escaped(sound.text)}</div>{more}'

    def _table(self, value: Any, depth: int) -> str:
        columns, length = _columns_in(value)
        if columns is None:
            return ""
        names = [*islice(columns, _MOST_FIELDS)]
        rows = [[self.value(columns[name][row], depth + 1) for name in names] for row in range(min(length, _MOST_ROWS))]
        more = [f"{length:,} rows"] if length > _MOST_ROWS else []
        more += [f"{len(columns):,} columns"] if len(columns) > len(names) else []
        return _html_table([escaped(str(name)) for name in names], rows, f"… {', '.join(more)} in all" if more else "")

    def _parts(self, value: Any, depth: int) -> str:
        if isinstance(value, Mapping):
            rows = [
                [f"<code>{escaped(cut(str(key), 40))}</code>", self.value(part, depth + 1)]
                for key, part in islice(value.items(), _MOST_FIELDS)
            ]
            more = f"… {len(value):,} in all" if len(value) > len(rows) else ""
            return _html_table([], rows, more) if rows else ""
        if not isinstance(value, (tuple, list)) or not value or all(map(_is_plain, value)):
            return ""
        parts = "".join(
            f'<div style="border-left:{_EDGE};padding-left:8px">{self.value(part, depth + 1)}</div>'
            for part in value[:_MOST_PARTS]
        )
        more = f'<div style="{_FAINT}">… {len(value):,} in all</div>' if len(value) > _MOST_PARTS else ""
        return f'<div style="display:flex;flex-wrap:wrap;gap:10px">{parts}</div>{more}'

    def _line(self, value: Any) -> str:
        array = numpy_of(value)
        if (date := date_in_words(value)) is not None:
            return f'<code style="white-space:nowrap">{escaped(date)}</code>'
        if array is None or array.size > _MANY_NUMBERS:
            return f"<code>{escaped(describe_item(value))}</code>"
        numbers = array.astype("float64") if array.dtype.kind == "f" else array
        if array.ndim == 0:
            text = f"{numbers.item():.6g}" if array.dtype.kind == "f" else str(array.item())
        elif array.size <= _FEW_NUMBERS:
            text = np.array2string(numbers, precision=4, separator=", ").replace("\n", "")
        else:
            text = f"min {numbers.min():.4g}, mean {numbers.mean():.4g}, max {numbers.max():.4g}"
        kind = f"{type(value).__name__} {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}: "
        return f"<code>{escaped(kind + text if array.ndim else text)}</code>"

    def _text(self, value: Any) -> str:
        return f"<code>{self._text_of(value)}</code>"

    def _text_of(self, value: Any) -> str:
        return escaped(cut(describe_item(value), 200))


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, bytes, int, float, bool, type(None))) or date_in_words(value) is not None


def _columns_in(value: Any) -> tuple[Mapping[Any, Any] | None, int]:
    """Return the columns of a table by their names, and its number of rows; None for what is no table."""
    if hasattr(value, "num_rows") and hasattr(value, "schema"):  # Arrow
        first = value.slice(0, _MOST_ROWS)
        return {name: first.column(place).to_pylist() for place, name in enumerate(value.schema.names)}, value.num_rows
    if hasattr(value, "columns") and len(getattr(value, "shape", ())) == 2:  # a data frame
        return {name: [*value[name][:_MOST_ROWS]] for name in value.columns}, len(value)
    if isinstance(value, Mapping) and len(value) > 1:
        kinds = (list, tuple, torch.Tensor)
        columns = [part for part in value.values() if isinstance(part, kinds) or numpy_of(part) is not None]
        lengths = {len(part) if getattr(part, "ndim", 1) else 0 for part in columns}
        one_image = any(len(images_in(part)) == 1 for part in columns)
        if len(columns) == len(value) and len(lengths) == 1 and not one_image and 0 not in lengths:
            return value, lengths.pop()
    if isinstance(value, (list, tuple)) and len(value) > 1 and all(isinstance(part, Mapping) for part in value):
        names = value[0].keys()
        if names and all(part.keys() == names for part in value):
            return {name: [part[name] for part in value[:_MOST_ROWS]] for name in names}, len(value)
    return None, 0


def _html_table(names: Iterable[str], rows: Sequence[Sequence[str]], more: str) -> str:
    style = f"border-bottom:{_EDGE};padding:2px 8px;text-align:left;vertical-align:top"
    head = "".join(f'<th style="{style}">{name}</th>' for name in names)
    cells = ("".join(f'<td style="{style}">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in [*([head] if head else []), *cells])
    below = f'<div style="{_FAINT}">{escaped(more)}</div>' if more else ""
    return f'<table style="border-collapse:collapse;margin:0">{body}</table>{below}'
