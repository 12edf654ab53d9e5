"""Renamed parameters work by their old names for one release, with a warning that shows the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as ps

IterableWrapper, ObjectReader = ps.iter.IterableWrapper, ps.map.ObjectReader

NUMBERS = IterableWrapper(range(4))
URLS = IterableWrapper(["memory://renamed/a"])


class Model:
    def __call__(self, item: Any) -> Any:
        return item


RENAMED: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "processpool_map": (
        lambda **named: NUMBERS.processpool_map(abs, **named),
        {"max_workers": 3, "scheduled_tasks": 5},
        {"workers": 3, "_prefetch": 5},
    ),
    "map_pool": (lambda **named: NUMBERS.map_pool(Model, **named), {"max_in_flight": 5}, {"_prefetch": 5}),
    "read_images": (URLS.read_images, {"max_workers": 3}, {"workers": 3}),
    "ObjectReader": (
        lambda **named: ObjectReader([], **named),
        {"max_workers": 3, "anon": True},
        {"workers": 3, "storage_options": {"anon": True}},
    ),
    "cache_files": (
        lambda **named: URLS.cache_files("folder", 10**6, **named),
        {"concurrency": 3, "key": "k", "secret": "s"},
        {"workers": 3, "storage_options": {"key": "k", "secret": "s"}},
    ),
    "load_files_by_s3": (
        URLS.load_files_by_s3,
        {"concurrency": 3, "anon": True},
        {"workers": 3, "storage_options": {"anon": True}},
    ),
    "list_files_by_s3": (URLS.list_files_by_s3, {"anon": True}, {"options": {"anon": True}}),
    "write_tar": (
        lambda **named: NUMBERS.write_tar("memory://renamed/{shard}.tar", 2, **named),
        {"anon": True},
        {"storage_options": {"anon": True}},
    ),
    "read_parquet": (URLS.read_parquet, {"read_ahead": 3}, {"_prefetch": 3}),
    "list_row_groups": (URLS.list_row_groups, {"read_ahead": 3}, {"_prefetch": 3}),
    "shuffle_rows": (URLS.read_parquet().shuffle_rows, {"buffer_rows": 30}, {"buffer_size": 30}),
}


@pytest.mark.parametrize("name", RENAMED)
def test_an_old_name_works_and_warns_with_the_line_that_has_it(name: str) -> None:
    make, old, expected = RENAMED[name]
    with pytest.warns(DeprecationWarning, match="the next release removes the old name") as caught:
        dp = make(**old)
    said = {str(each.message) for each in caught}
    assert len(said) == len(old)
    assert all(any(text.startswith(f"{name}({key}=…) is ") for text in said) for key in old)
    assert {each.filename for each in caught} == {__file__}
    for key, value in expected.items():
        found = vars(dp)[key]
        assert found == value or value.items() <= found.items()


def test_functions_take_old_names_too(tmp_path: Any) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.warns(DeprecationWarning, match=r"read_numpy\(max_workers=…\) is workers now") as caught:
        dp = ps.read_numpy(str(tmp_path), max_workers=1)  # type: ignore[call-arg]
    assert [batch.num_rows for batch in dp] == [3]
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"read_parquet\(read_ahead=…\) is prefetch now"):
        ps.read_parquet(str(tmp_path), read_ahead=1)  # type: ignore[call-arg]


def test_both_names_are_an_error() -> None:
    with (
        pytest.warns(DeprecationWarning, match="is workers now"),
        pytest.raises(TypeError, match="workers twice, once by its old name max_workers"),
    ):
        NUMBERS.processpool_map(abs, workers=1, max_workers=2)  # type: ignore[call-arg]
