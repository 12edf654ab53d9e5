"""Read images, text and arrays from files."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any, Literal

import numpy as np

from ...errors.checks import AUTO
from ...errors.secrets import Options
from ...registry import (
    IterDataPipe,
    OnError,
    Provenance,
    R,
    ReadRows,
    Tally,
    add_error_context,
    expect_whole,
    functional_datapipe,
    own,
    walk,
)
from ...storage.reading import open_file, open_to_seek, read_whole
from ...storage.retrying import trying_again
from ...storage.streaming.decompression_limit import LINE_BYTES, MAX_BYTES
from ...storage.streaming.streams import checked_path, text_over
from ...workers.threads import InlineWorkers, Threads
from ..arrow import pa
from ..bases.ahead.tuning import DERIVED, MOST_THREADS
from ..bases.ahead.works_ahead import WorksAhead
from ..bases.rows.one_schema import OneSchema
from ..columns.origins import FilePart, origin_of
from ..columns.text_formats import has_plain_line_ends, lines_in_range
from ..columns.to_arrow import batch_of, columns_of
from ..files.compression import decompressed, decompressor_by_name
from ..files.images import Size, faster_decoding
from ..files.numpy_files import arrays_in
from ..files.streams import bounded_lines
from .decode import ImageDecoder
from .image_folder import ImageFolderLister, LabelledFile


class WholeFileReader(WorksAhead[R]):
    """Yield the content of each file, read and decoded by threads: the base of the file readers."""

    traits = ("expensive",)
    works_in: str | None = "threads"
    buffers = ("workers",)
    buffered = "files"
    resumes_from_start = False

    def _set_up(
        self,
        source: IterDataPipe[str],
        include_paths: bool,
        workers: int | Literal["auto"],
        storage_options: Mapping[str, Any] | None,
        on_error: OnError,
    ) -> None:
        expect_whole("workers", workers, least=0, or_word=AUTO)
        self.source = source
        self.include_paths = include_paths
        self.workers = workers
        self.storage_options = Options(storage_options)
        self.handle_errors(on_error, applied=trying_again(on_error))
        if workers == 0:
            self.works_in = None
        room = AUTO if workers == AUTO else max(2 * workers, 1)
        self._set_concurrency(("workers", workers, MOST_THREADS), (DERIVED, room))

    def _decoded(self, path: str, content: bytes) -> R:
        """Return the decoded bytes of a file."""
        raise NotImplementedError(f"{type(self).__name__} must define _decoded")

    def __iter__(self) -> Iterator[R]:
        name = f"penstock-{self.functional_name}"
        if not self._at_once.value:
            return self._results(InlineWorkers(self.error_policy.wrap(self._read)))
        return self._results(Threads(lambda: self.error_policy.wrap(self._read), self._at_once.value, name))

    def _read(self, item: Any) -> R:
        path = checked_path(item)
        return self._decoded(path, read_whole(path, self.storage_options))


@functional_datapipe("read_images")
class ImageReader(WholeFileReader[dict[str, Any]]):
    """Yield a dict with the `"image"` of each file; with `include_paths`, its `"path"` too.

    Files of `list_image_folder` give their `"label"` too, the number of the class; `class_to_idx` has the numbers.

    An image is a tensor of `torch.uint8` and shape (channels, height, width). `mode` sets the channels: `"L"` for grey,
    `"RGB"` or `"RGBA"`. Takes paths and URLs of fsspec, with any extension: the format is detected from the content.

    `size` is a pair of height and width, or the shorter side. `decoder` is `"auto"`, which takes simplejpeg,
    torchvision or torchcodec for JPEGs, the first that works here, and Pillow for all else; or one of these by name, or
    `"pil"`. `ImageDecoder` documents how images are made smaller, and how near the pixels are to Pillow's: 1 of 255 at
    most. No EXIF rotation is applied.

    Up to `workers` threads read and decode; the order stays. With 0, the thread that asks for an image does, which is
    best for local files in the workers of a loader. With "auto", their number is found by measuring, up to 32 and
    within a tenth of the free memory. `storage_options` are options of the file system, such as `{"anon": True}`.
    `on_error` handles a file that cannot be read or is no image.

    Raises FileNotFoundError for a missing file, OSError (or Pillow's subclass of it, UnidentifiedImageError) for a
    truncated or corrupt image, or one that the named decoder cannot decode, ValueError for one with more than 8 bits
    per channel, and ImportError where Pillow is not installed. At construction, raises ValueError for an unknown
    decoder, and ImportError for one that does not work here.

    >>> import os, tempfile
    >>> from PIL import Image
    >>> path = os.path.join(tempfile.mkdtemp(), "red.png")
    >>> Image.new("RGB", (4, 2), "red").save(path)
    >>> dp = IterableWrapper([path]).read_images()
    >>> [row["image"].shape for row in dp]
    [torch.Size([3, 2, 4])]
    >>> [row["image"].shape for row in IterableWrapper([path]).read_images(size=(8, 8))]
    [torch.Size([3, 8, 8])]
    """

    gives = "rows"

    def __init__(
        self,
        source: IterDataPipe[str],
        include_paths: bool = False,
        *,
        mode: Literal["L", "RGB", "RGBA"] = "RGB",
        decoder: str = "auto",
        size: Size | None = None,
        workers: int | Literal["auto"] = 8,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        if mode not in ("L", "RGB", "RGBA"):
            raise ValueError(f"mode must be 'L', 'RGB' or 'RGBA', and is {mode!r}")
        self._set_up(source, include_paths, workers, storage_options, on_error)
        self.mode = mode
        self.decoder = decoder
        self.size = size
        self._decode = ImageDecoder(f"torch{mode.lower()}8", decoder, size)
        self.faster = faster_decoding(decoder, size)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class by its name, where the files are those of `list_image_folder`."""
        for pipe in walk(self):
            if isinstance(pipe, ImageFolderLister):
                return pipe.class_to_idx
        raise AttributeError(
            "class_to_idx: the files are not those of list_image_folder", name="class_to_idx", obj=self
        )

    def _provenance_of(self, item: Any) -> Provenance | None:
        url = item.url if isinstance(item, LabelledFile) else item
        return Provenance((ReadRows(str(url), "", range(1)),)) if isinstance(url, (str, os.PathLike)) else None

    def provenance(self) -> Provenance | None:
        return self._provenance

    def _read(self, item: Any) -> Any:
        if not isinstance(item, LabelledFile):
            return super()._read(item)
        image, *path = super()._read(item.url).items()
        return dict([image, ("label", item.label), *path])

    def _decoded(self, path: str, content: bytes) -> dict[str, Any]:
        row = {"image": self._decode("png", content)}  # any image extension will do
        return {**row, "path": path} if self.include_paths else row


@functional_datapipe("read_numpy")
class NumpyReader(WholeFileReader["pa.RecordBatch"], OneSchema["pa.RecordBatch"]):
    """Yield a `pyarrow.RecordBatch` for each NumPy file; the rows are the first dimension of its arrays.

    A `.npy` file has the column `"data"`, or a structured one its fields, a `.npz` file its arrays by their names, all
    with the same number of rows. A column of more than one dimension has Arrow's fixed-shape tensor type, which
    `to_tensors` converts without a copy. With `include_paths` there is a column `"path"` too. Takes paths and URLs of
    fsspec. The arrays of a `.npz` file may have `max_bytes`, or a hundred times the bytes of the file if that is more.

    Up to `workers` threads read; the order stays. `workers="auto"`, `storage_options` and `on_error` are as for
    `read_images`.

    Raises FileNotFoundError for a missing file. Raises ValueError for a file that is not NumPy's, or is truncated,
    corrupt or larger than `max_bytes`, for arrays of objects, which are pickles and could run any code, and for an
    array without a dimension. Raises ValueError for a file whose columns have other names or types than those of the
    first file; shapes may differ. Raises TypeError for complex numbers, which Arrow lacks.

    >>> import os, tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "squares.npy")
    >>> np.save(path, np.arange(3) ** 2)
    >>> dp = IterableWrapper([path]).read_numpy()
    >>> [batch.to_pydict() for batch in dp]
    [{'data': [0, 1, 4]}]
    """

    gives = "batches"
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[str],
        include_paths: bool = False,
        *,
        workers: int | Literal["auto"] = 8,
        max_bytes: int = MAX_BYTES,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        expect_whole("max_bytes", max_bytes)
        self._set_up(source, include_paths, workers, storage_options, on_error)
        self.max_bytes = max_bytes

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._begin_schema()
        return filter(self._has_first_schema, super().__iter__())

    def _has_first_schema(self, batch: pa.RecordBatch) -> bool:
        assert self._provenance is not None
        url = self._provenance.places[0].file
        try:
            self._expect_schema(url, _value_types(batch))
        except ValueError as error:
            add_error_context(error, self, url)
            self.error_policy.refuse(error, url)
            return False
        return True

    def _schema_in(self, item: Any) -> tuple[str, pa.Schema]:
        return str(item), _value_types(self._read(item))

    def _provenance_of(self, item: Any) -> Provenance | None:
        return Provenance((ReadRows(str(item), "", None),))

    def _decoded(self, path: str, content: bytes) -> pa.RecordBatch:
        if not content.startswith((b"\x93NUMPY", b"PK")):  # NumPy would take it for a pickle
            raise ValueError(f"this is not a NumPy file: it begins with {content[:6]!r}")
        loaded = arrays_in(content, self.max_bytes)
        columns = columns_of(loaded) if isinstance(loaded, np.ndarray) else loaded
        if self.include_paths and "path" in columns:
            raise ValueError("the file has an array 'path', which include_paths would replace")
        batch = batch_of(columns)
        return batch_of({**columns, "path": [path] * batch.num_rows}) if self.include_paths else batch


def _value_types(batch: pa.RecordBatch) -> pa.Schema:
    """Return the schema of a batch with the types of the values in place of tensor types, which have shapes."""
    is_tensor = pa.FixedShapeTensorType
    return pa.schema(
        [
            (field.name, field.type.value_type if isinstance(field.type, is_tensor) else field.type)
            for field in batch.schema
        ]
    )


@functional_datapipe("read_text")
class TextReader(IterDataPipe[dict[str, str]]):
    r"""Yield a dict with the `"text"` of each line of each file; with `include_paths`, the file's `"path"` too.

    Take it for files by path or URL; `readlines` reads lines of streams, such as members of archives. Line ends are
    removed, and so is the byte order mark with which UTF-8 may begin. Empty lines, and lines of spaces, are left out
    unless `drop_empty_lines` is False. A file whose name ends in gz, bz2, zst or xz is decompressed. A line may have
    `max_bytes` characters; beyond that it raises ValueError. Takes paths and URLs of fsspec; `storage_options` are
    options of the file system. `on_error` handles a file that cannot be read; lines already yielded stay.

    Raises FileNotFoundError for a missing file, LookupError for an unknown encoding, and UnicodeDecodeError for a file
    in another encoding.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "poem.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("one\n\ntwo\n")
    >>> dp = IterableWrapper([path]).read_text()
    >>> list(dp)
    [{'text': 'one'}, {'text': 'two'}]
    """

    traits = ("unpacks",)
    gives = "rows"
    _path: str | None = own(None, saved=False)
    """The path of the file that is open."""
    _lines: Tally = own(Tally, saved=False)
    """Counts the lines that were read of the file or its part."""
    _part: str = own("", saved=False)
    """The name of the part of the file that is open; empty for the whole file."""

    def __init__(
        self,
        source: IterDataPipe[str],
        include_paths: bool = False,
        *,
        encoding: str = "utf-8",
        drop_empty_lines: bool = True,
        max_bytes: int = LINE_BYTES,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        codecs.lookup(encoding)
        expect_whole("max_bytes", max_bytes)
        self.source = source
        self.include_paths = include_paths
        self.encoding = encoding
        self.drop_empty_lines = drop_empty_lines
        self.max_bytes = max_bytes
        self.storage_options = Options(storage_options)
        self.handle_errors(on_error, applied=trying_again(on_error))

    def __iter__(self) -> Iterator[dict[str, str]]:
        return self.outputs_of_each(self.error_policy.outputs(self._rows), self.source)

    def provenance(self) -> Provenance | None:
        line = self._lines.items
        rows = None if self._part else range(line, line + 1)  # of a part of a file, the first line is unknown
        return None if self._path is None else Provenance((ReadRows(self._path, self._part, rows),))

    def _rows(self, item: Any) -> Iterator[dict[str, str]]:
        path = origin_of(item).url
        self._path, self._lines, self._part = path, Tally(), ""
        beside = {"path": path} if self.include_paths else {}
        from_start = not isinstance(item, FilePart) or item.start == 0
        with text_over(self._opened(item, path), self.encoding, from_start=from_start, newline="\n") as lines:
            for line in self._lines.follow(bounded_lines(lines, self.max_bytes)):
                if line.strip() or not self.drop_empty_lines:
                    yield {"text": line.rstrip("\r\n"), **beside}

    def _opened(self, item: Any, path: str) -> IO[bytes]:
        if not isinstance(item, FilePart):
            stream, _ = open_file(path, self.storage_options, retry=self._retry, counted_by=self.error_policy)
            decompressor = decompressor_by_name(path)
            return stream if decompressor is None else decompressed(stream, path, decompressor)
        if not has_plain_line_ends(self.encoding):
            raise ValueError(
                f"a file in {self.encoding} cannot be divided at its line ends: put sharding_filter in place of "
                "shard_files"
            )
        self._part = f"the lines after byte {item.start:,}"
        options: Any = {"retry": self._retry, "counted_by": self.error_policy}
        with open_to_seek(path, self.storage_options, **options) as file:
            return io.BytesIO(lines_in_range(file, item.start, item.stop, item.size))
