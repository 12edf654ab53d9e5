"""The palette of pictures: light ones as attributes, dark ones as rules that follow the reader's system or page."""

from __future__ import annotations

_PALETTE = {  # the property, the light colour, the dark one
    "canvas": ("fill", "#ffffff", "#111418"),
    "box": ("fill", "#f6f8fa", "#1d2229"),
    "outline": ("stroke", "#8c959f", "#5c6773"),
    "name": ("fill", "#0b3d66", "#9cd0ff"),
    "plain": ("fill", "#3d444d", "#d3dae2"),
    "faint": ("fill", "#646d76", "#98a2ad"),
    "line": ("stroke", "#6a737d", "#8b96a1"),
    "tip": ("fill", "#6a737d", "#8b96a1"),
    "iterable": ("fill", "#2f81c7", "#4a9fe8"),
    "map-style": ("fill", "#9a57c9", "#b983e6"),
    "mark": ("fill", "#dfe6ee", "#303c49"),
    "on-mark": ("fill", "#24425c", "#c6dcf0"),
    "divides": ("fill", "#ffe1b3", "#5a3c0c"),
    "on-divides": ("fill", "#6b3d00", "#ffd899"),
    "share": ("fill", "#f9c9a4", "#70431c"),
    "zone": ("fill", "#eef4ea", "#182118"),
    "zone-edge": ("stroke", "#8fae7b", "#5f7f4c"),
    "on-zone": ("fill", "#3f5d28", "#a6cb8c"),
}
# What notebooks, VS Code, Colab and the themes of Sphinx say of the page, whatever the system's colours are.
_PAGE_IS_LIGHT = ('[data-jp-theme-light="true"]', '[data-vscode-theme-kind$="light"]', '[data-theme="light"]')
_PAGE_IS_DARK = (
    *('[data-jp-theme-light="false"]', '[data-vscode-theme-kind="vscode-dark"]'),
    *('[data-vscode-theme-kind="vscode-high-contrast"]', '[data-theme="dark"]', '[theme="dark"]'),
)


def paint(*names: str) -> str:
    """Return the attributes of an element that has some colours of the palette.

    >>> paint("box", "outline")
    'class="box outline" fill="#f6f8fa" stroke="#8c959f"'
    """
    attributes = " ".join(f'{_PALETTE[name][0]}="{_PALETTE[name][1]}"' for name in names)
    return f'class="{" ".join(names)}" {attributes}'


def rules(picture: str) -> str:
    """Return the rules of style for the picture of a class; they change nothing else on a page."""
    return (
        f"@media (prefers-color-scheme:dark){{{_rules(picture, dark=True)}}}"
        + _rules(f":is({','.join(_PAGE_IS_LIGHT)}) {picture}", dark=False)
        + _rules(f":is({','.join(_PAGE_IS_DARK)}) {picture}", dark=True)
    )


def _rules(picture: str, dark: bool) -> str:
    return "".join(
        f"{picture} .{name}{{{kind}:{in_the_dark if dark else colour}}}"
        for name, (kind, colour, in_the_dark) in _PALETTE.items()
    )
