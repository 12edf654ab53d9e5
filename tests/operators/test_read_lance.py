"""read_lance: deleted rows, large rows, and objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from s3 import S3Server


def test_deleted_rows_are_left_out(tmp_path: Path) -> None:
    url = tmp_path / "t.lance"
    dataset = lance.write_dataset(pa.table({"id": range(10)}), url, max_rows_per_file=4)
    dataset.delete("id in (2, 3, 4, 9)")
    read = ps.read_lance(url, batch_size=3)
    assert [batch.to_pydict()["id"] for batch in read] == [[0, 1], [5, 6, 7], [8]]
    assert sum(batch.num_rows for batch in ps.read_lance(url, 1)) == 10


def test_vectors_become_tensors_of_their_shape(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(20, dtype=np.float32)), 2)
    lance.write_dataset(pa.table({"v": vectors}), tmp_path / "t.lance")
    [batch] = ps.read_lance(tmp_path / "t.lance").to_tensors()
    assert torch.equal(batch["v"], torch.arange(20, dtype=torch.float32).reshape(10, 2))


def test_parts_are_the_same_however_lance_cuts_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lance.write_dataset(pa.table({"id": range(20)}), tmp_path / "t.lance")
    read = lance.LanceFragment.to_batches
    found = []
    for size in (3, 100):

        def cut(fragment: Any, size: int = size, **options: Any) -> Any:
            return read(fragment, **{**options, "batch_size": size})

        monkeypatch.setattr(lance.LanceFragment, "to_batches", cut)
        found.append([batch.to_pydict()["id"] for batch in ps.read_lance(tmp_path / "t.lance", batch_size=8)])
    assert found[0] == found[1] == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]


def test_objects_are_read_by_the_options_of_other_readers(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_server.empty_bucket("lance")
    options = {"key": s3_server.key, "secret": s3_server.secret, "endpoint_url": s3_server.endpoint}
    lance.write_dataset(pa.table({"id": range(3)}), "s3://lance/t", storage_options={"aws_allow_http": "true"})
    assert [row["id"] for row in ps.read_lance("s3://lance/t").rows()] == [0, 1, 2]
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert [row["id"] for row in ps.read_lance("s3://lance/t", storage_options=options).rows()] == [0, 1, 2]


def test_a_folder_without_versions_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no Lance dataset at"):
        list(ps.read_lance(tmp_path / "none.lance"))
