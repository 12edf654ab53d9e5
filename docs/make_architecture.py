"""Write docs/pictures/rooms.svg, the rooms of the package and their imports: `python docs/make_architecture.py`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from penstock.views.pictures.palette import paint, rules

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "rooms.svg"
WIDTH, BOX, HEIGHT, GAP = 620, 190, 54, 34
LEFT, RIGHT = 160, 460
ASIDE = {"checkpoint", "compat", "datasets", "testing"}
"""The rooms on the right, so that no arrow goes through a box."""


def folders() -> dict[str, Path]:
    """Return the folder of each room."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {package for package in setuptools["packages"] if package.count(".") == 1}
    return {
        package.partition(".")[2]: ROOT / setuptools["package-dir"].get(package, package.replace(".", "/"))
        for package in packages
    }


def layers() -> list[list[str]]:
    """Return the rooms in layers, as import-linter checks them; each may import those of lower layers."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [[room.strip().partition(".")[2] for room in layer.split("|")] for layer in contracts[0]["layers"]]


def imported_rooms(file: Path, folder: Path) -> Iterator[str]:
    """Yield the rooms that a file imports by a relative import, at its top or in a function."""
    depth = len(file.relative_to(folder).parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1:
            yield from [node.module.partition(".")[0]] if node.module else (alias.name for alias in node.names)


def imports() -> dict[str, set[str]]:
    """Return which rooms each room imports."""
    rooms = folders()
    found = {
        room: {other for file in folder.rglob("*.py") for other in imported_rooms(file, folder)}
        for room, folder in rooms.items()
    }
    return {room: (others & rooms.keys()) - {room} for room, others in found.items()}


def without_shortcuts(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each arrow that a longer way replaces."""

    def reached(room: str) -> set[str]:
        return arrows[room].union(*map(reached, arrows[room]))

    return {room: others - set().union(*map(reached, others)) for room, others in arrows.items()}


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    aside = BOX // 3 * ((end[0] > start[0]) - (end[0] < start[0]))
    return (
        f'<line x1="{start[0] + aside}" y1="{start[1] + HEIGHT}" x2="{end[0] - aside}" y2="{end[1] - 8}" '
        f'{paint("line")} stroke-width="1.5" marker-end="url(#tip)"/>'
    )


def svg() -> str:
    """Return the picture: a row for each layer, and in each box a room, as a folder and as a module."""
    rows, rooms = layers(), folders()
    middles: dict[str, tuple[int, int]] = {}
    boxes: list[str] = []
    for number, row in enumerate(rows):
        top = 16 + number * (HEIGHT + GAP)
        for room in row:
            middle = RIGHT if room in ASIDE else LEFT
            middles[room] = middle, top
            folder = rooms[room].relative_to(ROOT).as_posix()
            boxes += [
                f'<rect x="{middle - BOX / 2}" y="{top}" width="{BOX}" height="{HEIGHT}" rx="8" '
                f"{paint('box', 'outline')}/>",
                f'<text x="{middle}" y="{top + 23}" font-weight="600" {paint("name")}>{folder}/</text>',
                f'<text x="{middle}" y="{top + 42}" font-size="11" {paint("faint")}>penstock.{room}</text>',
            ]
    arrows = [
        _arrow(middles[room], middles[other])
        for room, others in sorted(without_shortcuts(imports()).items())
        for other in sorted(others)
    ]
    height = 16 + len(rows) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rooms" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        'font-family="system-ui,sans-serif" font-size="14" text-anchor="middle" role="img">'
        "<title>The rooms of Penstock; an arrow means: imports</title>"
        f"<style>{rules('.rooms')}</style>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0L8,4L0,8z" {paint("tip")}/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height}" {paint("canvas")}/>' + "".join([*arrows, *boxes]) + "</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
