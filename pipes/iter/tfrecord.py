"""Read examples from TFRecord files, without TensorFlow."""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import torch

from ...errors.optional import require
from ...registry import IterDataPipe, OnError, close, functional_datapipe
from ...storage.streaming.streams import checked_path, expect_bytes
from ..bases.listers_and_openers import GivenLength, check_length
from ..files.streams import path_and_stream
from .archive import Unpacker

Spec = Mapping[str, tuple[Sequence[int] | None, torch.dtype | None] | None]
"""The features to yield, each with its shape and dtype; None leaves them unchanged."""

_DTYPES = {"float_list": np.float32, "int64_list": np.int64}


@functional_datapipe("load_from_tfrecord")
class TFRecordLoader(GivenLength, Unpacker[dict[str, Any]]):
    """Yield a dict for each example in TFRecord files: by names, features as tensors or lists of bytes.

    Take it for data that you have as TFRecord files; TensorFlow is not needed. Takes pairs of a path and a stream of
    bytes, which is closed at the end of the file. For compressed files, put `decompress` before. Records are
    `tf.train.Example` or `tf.train.SequenceExample` messages. A feature of numbers becomes a tensor of shape (values,),
    of float32 or int64; a feature of bytes, a list. A feature list, with values for each step, becomes a list of these.
    Names are sorted. Checksums are verified.

    `spec` selects features: it maps their names to (shape, dtype), either of which may be None, or to None. Tensors get
    the shape, in which one dimension may be -1, and the dtype. Bytes with a shape become nested lists, and with the
    shape `()` plain bytes. A feature list with a shape or dtype becomes one tensor, or one nested list, of all steps.
    Names come in the order of `spec`. `len` returns `length`; without `length` it raises TypeError.

    `on_error` handles a record that fails, such as one without a feature of `spec`; a corrupt record length fails the
    rest of the file. It cannot be a `Retry`.

    Raises RuntimeError for a truncated or corrupt file, and for a record that lacks a feature of `spec`, has it in
    another shape, or, without `spec`, has a name both in its context and in its feature lists. Raises TypeError for a
    dtype for bytes or a stream of text, and ImportError without the extra `tfrecord`.

    >>> import io
    >>> record = bytes.fromhex(
    ...     "0f000000000000006d532b090a0d0a0b0a016e12061a040a020307499e3a8f"  # an example with n = [3, 7]
    ... )
    >>> dp = IterableWrapper([("a.tfrecord", io.BytesIO(record))]).load_from_tfrecord()
    >>> list(dp)
    [{'n': tensor([3, 7])}]
    """

    resumes_from_start = False
    gives = "rows"

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[bytes]]],
        spec: Spec | None = None,
        length: int = -1,
        *,
        on_error: OnError = "raise",
    ) -> None:
        require("google.protobuf", "tfrecord")
        require("google_crc32c", "tfrecord")
        if spec is not None:
            _check_spec(spec)
        self.source = source
        self.spec = spec
        self.length = check_length(length)
        self.handle_errors(on_error, can_retry=False)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        records_of = self.error_policy.outputs(self._records)
        parse = self.error_policy.wrap(functools.partial(_parse, _message_class(), self.spec))
        keep = self.error_policy.keep
        for item in self._files_left():
            for record in records_of(item):
                self.given += 1
                example: Any = parse(record)
                if keep(example):
                    yield example

    def _records(self, item: tuple[str, IO[bytes]]) -> Iterator[tuple[str, int, bytes]]:
        """Yield the path, the number and the bytes, checksum included, of each record still to come."""
        path, stream = path_and_stream(item)
        name = checked_path(path)
        number = 0
        try:
            expect_bytes(stream)
            while header := _read_exactly(stream, 12, number):
                length, checksum = struct.unpack("<QI", header)
                if checksum != _checksum(header[:8]):
                    raise RuntimeError(f"the file is corrupt: the checksum of the length of record {number} differs")
                if not (content := _read_exactly(stream, length + 4, number)):
                    raise RuntimeError(f"the file is cut: it ends in record {number}")
                if number >= self.given:
                    yield name, number, content
                number += 1
        finally:
            close(stream)


def _read_exactly(stream: IO[bytes], size: int, number: int) -> bytes:
    """Return `size` bytes, or none at the end of the file; raise RuntimeError for a partial read."""
    content = stream.read(size)
    while content and len(content) < size:  # an unbuffered stream may return fewer bytes
        if not (more := stream.read(size - len(content))):
            raise RuntimeError(f"the file is cut: it ends in record {number}")
        content += more
    return content


def _checksum(content: bytes) -> int:
    """Return the CRC32C of bytes, masked as in TFRecord files."""
    crc: int = require("google_crc32c", "tfrecord").value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _parse(message_class: Any, spec: Spec | None, record: tuple[str, int, bytes]) -> dict[str, Any]:
    """Return the features of a record."""
    _, number, content = record
    content, checksum = content[:-4], content[-4:]
    if int.from_bytes(checksum, "little") != _checksum(content):
        raise RuntimeError(f"record {number} is corrupt: its checksum differs")
    try:
        message = message_class.FromString(content)
    except Exception as error:  # protobuf's DecodeError
        raise RuntimeError(f"record {number} is no Example or SequenceExample: {error}") from error
    features = {entry.key: entry.value for entry in message.context.feature}
    lists = {entry.key: entry.value.feature for entry in message.feature_lists.feature_list}
    if spec is None and (both := sorted({*features} & {*lists})):
        raise RuntimeError(f"record {number} has {both[0]!r} both in its context and in its feature lists: give a spec")
    example = {}
    for name in sorted({*features, *lists}) if spec is None else spec:
        shape, dtype = (spec and spec[name]) or (None, None)
        try:
            if name in features:
                example[name] = _shaped(_feature_values(features[name]), shape, dtype)
            elif name in lists:
                example[name] = _of_all_steps([_feature_values(step) for step in lists[name]], shape, dtype)
            else:
                raise RuntimeError(f"missing: the features are {sorted({*features, *lists})}")
        except (RuntimeError, TypeError) as error:
            raise type(error)(f"feature {name!r} of record {number}: {error}") from error
    return example


def _feature_values(feature: Any) -> Any:
    """Return the values of a feature: a tensor, or a list of bytes."""
    kind = feature.WhichOneof("kind")
    if kind is None:
        return []
    values = getattr(feature, kind).value
    return torch.from_numpy(np.array(values, _DTYPES[kind])) if kind in _DTYPES else list(values)


def _of_all_steps(steps: list[Any], shape: Sequence[int] | None, dtype: torch.dtype | None) -> Any:
    """Return the values of all steps of a feature list, joined where a shape or dtype is given."""
    if shape is None and dtype is None:
        return steps
    if not steps or isinstance(steps[0], list):
        return _shaped([value for values in steps for value in values], shape, dtype)
    return _shaped(torch.stack(steps) if shape is None else torch.cat(steps), shape, dtype)


def _shaped(values: Any, shape: Sequence[int] | None, dtype: torch.dtype | None) -> Any:
    """Return values in a shape and dtype: a tensor, or bytes in lists."""
    if dtype is not None and isinstance(values, list):
        if values:
            raise TypeError(f"it holds bytes, and its spec asks for {dtype}: give None for the dtype of bytes")
        values = torch.empty(0)
    if shape is not None:
        # An array of objects reshapes bytes; tolist() nests them.
        array = values if isinstance(values, torch.Tensor) else np.array(values, object)
        try:
            array = array.reshape(tuple(shape))
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(f"it has {len(values)} values, and its spec asks for the shape {(*shape,)}") from error
        values = array if isinstance(array, torch.Tensor) else array.tolist()
    return values if dtype is None else values.to(dtype)


def _check_spec(spec: Spec) -> None:
    if not isinstance(spec, Mapping):
        raise TypeError(f"spec must map names of features to (shape, dtype), and is {spec!r:.100}")
    for name, asked in spec.items():
        if asked is None:
            continue
        if not isinstance(asked, (tuple, list)) or len(asked) != 2:
            raise TypeError(f"the spec of {name!r} must be a shape and a dtype, or None, and is {asked!r:.100}")
        shape, dtype = asked
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise TypeError(f"the dtype in the spec of {name!r} must be one of torch's, or None, and is {dtype!r:.100}")
        if shape is not None and (any(operator.index(n) < -1 for n in shape) or list(shape).count(-1) > 1):
            raise ValueError(f"in the shape in the spec of {name!r} one dimension may be -1, and it is {shape!r:.100}")


_MESSAGES = {
    "BytesList": {"value": ("repeated", "bytes")},
    "FloatList": {"value": ("repeated", "float")},
    "Int64List": {"value": ("repeated", "int64")},
    "Feature": {
        "bytes_list": ("one of", "BytesList"),
        "float_list": ("one of", "FloatList"),
        "int64_list": ("one of", "Int64List"),
    },
    "FeatureEntry": {"key": ("optional", "string"), "value": ("optional", "Feature")},
    "Features": {"feature": ("repeated", "FeatureEntry")},
    "FeatureList": {"feature": ("repeated", "Feature")},
    "FeatureListEntry": {"key": ("optional", "string"), "value": ("optional", "FeatureList")},
    "FeatureLists": {"feature_list": ("repeated", "FeatureListEntry")},
    "SequenceExample": {"context": ("optional", "Features"), "feature_lists": ("optional", "FeatureLists")},
}
"""TensorFlow's messages, with fields numbered from 1. Maps are given as repeated pairs, which have the same encoding.
Likewise, an Example is encoded as a SequenceExample without feature lists."""


@functools.cache
def _message_class() -> Any:
    """Return protobuf's class of a SequenceExample."""
    descriptor_pb2 = require("google.protobuf.descriptor_pb2", "tfrecord")
    factory = require("google.protobuf.message_factory", "tfrecord")
    pool = require(
        "google.protobuf.descriptor_pool", "tfrecord"
    ).DescriptorPool()  # its own: TensorFlow has these names
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="penstock/tfrecord.proto", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, (label, kind)) in enumerate(fields.items(), 1):
            field = message.field.add(name=field_name, number=number)
            field.label = kinds.LABEL_REPEATED if label == "repeated" else kinds.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type, field.type_name = kinds.TYPE_MESSAGE, kind
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
            if label == "one of":
                field.oneof_index = 0
        if any(label == "one of" for label, _ in fields.values()):
            message.oneof_decl.add(name="kind")
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("SequenceExample"))
