from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from penstock.pipes.iter import FileLister, IterableWrapper
from resuming import assert_resumes_everywhere

pytest.importorskip("google_crc32c")
pytest.importorskip("google.protobuf")


# Records, laid out by hand


def framed(*records: bytes) -> bytes:
    return b"".join(_with_checksum(struct.pack("<Q", len(record))) + _with_checksum(record) for record in records)


def _with_checksum(content: bytes) -> bytes:
    crc = crc32c(content)
    return content + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def crc32c(content: bytes) -> int:
    """Castagnoli's, bit by bit."""
    crc = 2**32 - 1
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 2**32 - 1


def field(number: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    value %= 2**64
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def feature(values: list[Any]) -> bytes:
    if not values or isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(map(varint, values))))


def features(values: dict[str, list[Any]]) -> bytes:
    return b"".join(field(1, field(1, name) + field(2, feature(each))) for name, each in values.items())


def example(**values: list[Any]) -> bytes:
    return field(1, features(values))


def sequence_example(context: dict[str, list[Any]], **lists: list[list[Any]]) -> bytes:
    steps = {name: b"".join(field(1, feature(step)) for step in each) for name, each in lists.items()}
    return field(1, features(context)) + field(
        2, b"".join(field(1, field(1, name) + field(2, each)) for name, each in steps.items())
    )


EXAMPLE = example(i=[1, 2, 3, 4], f=[1.5, 2.0], b=[b"x", b"yz"], one=[-7])
SEQUENCE = sequence_example({"c": [5]}, n=[[1, 2], [3, 4]], b=[[b"a"], [b"b", b"c"]], ragged=[[1.0], [2.0, 3.0]])


def load(content: bytes, *arguments: Any, **named: Any) -> Any:
    return IterableWrapper([("a.tfrecord", io.BytesIO(content))]).load_from_tfrecord(*arguments, **named)


def plain(value: Any) -> Any:
    """Return a value with its tensors as lists, each with its dtype."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype).removeprefix("torch."), value.tolist())
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def only(record: bytes, spec: Any = None) -> dict[str, Any]:
    [found] = load(framed(record), spec)
    result: dict[str, Any] = plain(found)
    return result


# What comes out


def test_a_file_is_read_byte_for_byte_as_the_format_defines_it() -> None:
    file = bytes.fromhex(
        "1100000000000000"  # the length, 17
        "9d6db52e"  # its checksum
        "0a0f"  # Example.features
        "0a0d"  # Features.feature, a pair
        "0a0178"  # its key, "x"
        "1208"  # its value, a Feature
        "1206"  # Feature.float_list
        "0a04"  # FloatList.value, packed
        "0000003f"  # 0.5
        "7beb4d2f"  # the checksum
    )
    assert plain(load(file).take_all()) == [{"x": ("float32", [0.5])}]
    assert crc32c(b"123456789") == 0xE3069283  # as RFC 3720 has it: what the other tests write is right
    assert list(load(b"")) == []
    assert len(load(b"", length=4)) == 4
    stream = io.BytesIO(file * 2)
    iterator: Any = iter(IterableWrapper([("a", stream)], deepcopy=False).load_from_tfrecord())
    next(iterator)
    iterator.close()
    assert stream.closed


UNPACKED = field(
    1, field(1, field(1, "n") + field(2, field(3, varint(1 << 3) + varint(3) + varint(1 << 3) + varint(7))))
)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            EXAMPLE,
            {"b": [b"x", b"yz"], "f": ("float32", [1.5, 2.0]), "i": ("int64", [1, 2, 3, 4]), "one": ("int64", [-7])},
        ),
        (
            SEQUENCE,
            {
                "b": [[b"a"], [b"b", b"c"]],
                "c": ("int64", [5]),
                "n": [("int64", [1, 2]), ("int64", [3, 4])],
                "ragged": [("float32", [1.0]), ("float32", [2.0, 3.0])],
            },
        ),
        (UNPACKED, {"n": ("int64", [3, 7])}),
        (b"", {}),
        (example(b=[]), {"b": []}),
        (field(1, field(1, field(1, "n") + field(2, b""))), {"n": []}),
        (field(1, field(1, field(1, "n") + field(2, field(3, b"")))), {"n": ("int64", [])}),
        (sequence_example({}, n=[]), {"n": []}),
    ],
)
def test_without_a_spec_all_features_come_out_by_their_names(record: bytes, expected: dict[str, Any]) -> None:
    assert only(record) == expected
    assert [*only(record)] == sorted(expected)
    assert [*only(EXAMPLE, {"one": None, "b": None})] == ["one", "b"]


@pytest.mark.parametrize(
    ("record", "name", "asked", "expected"),
    [
        (EXAMPLE, "i", ((2, -1), torch.int32), ("int32", [[1, 2], [3, 4]])),
        (EXAMPLE, "i", ([4], torch.float32), ("float32", [1.0, 2.0, 3.0, 4.0])),
        (EXAMPLE, "i", (None, torch.uint8), ("uint8", [1, 2, 3, 4])),
        (EXAMPLE, "i", ((4, 1), None), ("int64", [[1], [2], [3], [4]])),
        (EXAMPLE, "one", ((), torch.int64), ("int64", -7)),
        (EXAMPLE, "b", (None, None), [b"x", b"yz"]),
        (EXAMPLE, "b", ((2, 1), None), [[b"x"], [b"yz"]]),
        (example(b=[b"x"]), "b", ((), None), b"x"),
        (SEQUENCE, "n", ((-1, 2), torch.int32), ("int32", [[1, 2], [3, 4]])),
        (SEQUENCE, "n", (None, torch.int32), ("int32", [[1, 2], [3, 4]])),
        (SEQUENCE, "ragged", ((-1,), torch.float64), ("float64", [1.0, 2.0, 3.0])),
        (SEQUENCE, "b", ((-1,), None), [b"a", b"b", b"c"]),
        (SEQUENCE, "b", (None, None), [[b"a"], [b"b", b"c"]]),
        (SEQUENCE, "c", ((), torch.int32), ("int32", 5)),
        (sequence_example({"k": [5]}, k=[[1]]), "k", None, ("int64", [5])),
    ],
)
def test_a_spec_gives_the_shape_and_the_dtype(record: bytes, name: str, asked: Any, expected: Any) -> None:
    assert only(record, {name: asked}) == {name: expected}


# What is cut or corrupt, or not what the spec asks for


def test_a_cut_file_is_an_error() -> None:
    class Slow(io.RawIOBase):
        """Gives five bytes at a time."""

        def __init__(self, content: bytes) -> None:
            self.content = io.BytesIO(content)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self.content.readinto(memoryview(buffer)[:5])

    one = framed(EXAMPLE)
    for cut in range(1, len(one) + 1):
        for stream in (io.BytesIO(one * 2 + one[:cut]), Slow(one * 2 + one[:cut])):
            iterator = iter(IterableWrapper([("a.tfrecord", stream)], deepcopy=False).load_from_tfrecord())
            next(iterator)
            next(iterator)
            if cut == len(one):
                assert [*next(iterator)] == ["b", "f", "i", "one"]
                continue
            with pytest.raises(RuntimeError, match="the file is cut: it ends in record 2") as caught:
                next(iterator)
            assert "a.tfrecord" in "".join(caught.value.__notes__)


def test_every_wrong_bit_is_an_error() -> None:
    content = bytearray(framed(EXAMPLE, SEQUENCE))
    for at in range(len(content)):
        content[at] ^= 4
        with pytest.raises(RuntimeError, match=r"record [01] (differs|is corrupt: its checksum differs)"):
            load(bytes(content)).count()
        content[at] ^= 4


@pytest.mark.parametrize(
    ("record", "spec", "error", "text"),
    [
        (sequence_example({"k": [5]}, k=[[1]]), None, RuntimeError, "record 0 has 'k' both in its context and in its"),
        (EXAMPLE, {"x": None}, RuntimeError, "feature 'x' of record 0: missing: the features are ['b', 'f', 'i'"),
        (EXAMPLE, {"i": ((3,), None)}, RuntimeError, "feature 'i' of record 0: it has 4 values, and its spec asks for"),
        (EXAMPLE, {"b": ((), None)}, RuntimeError, "feature 'b' of record 0: it has 2 values, and its spec asks for"),
        (EXAMPLE, {"b": ((2,), torch.uint8)}, TypeError, "feature 'b' of record 0: it holds bytes, and its spec asks"),
        (SEQUENCE, {"n": ((2,), None)}, RuntimeError, "feature 'n' of record 0: it has 4 values, and its spec asks"),
        (SEQUENCE, {"ragged": (None, torch.int8)}, RuntimeError, "feature 'ragged' of record 0: stack expects"),
        (b"\xff\xff", None, RuntimeError, "record 0 is no Example or SequenceExample"),
        (EXAMPLE, 3, TypeError, "spec must map names of features"),
        (EXAMPLE, {"a": torch.int64}, TypeError, "the spec of 'a' must be a shape and a dtype, or None"),
        (EXAMPLE, {"a": (3,)}, TypeError, "the spec of 'a' must be a shape and a dtype"),
        (EXAMPLE, {"a": ((3,), int)}, TypeError, "the dtype in the spec of 'a' must be one of torch's"),
        (EXAMPLE, {"a": ((-1, -1), None)}, ValueError, "in the shape in the spec of 'a' one dimension may be -1"),
        (EXAMPLE, {"a": ((-2,), None)}, ValueError, "in the shape in the spec of 'a'"),
    ],
)
def test_a_wrong_spec_is_an_error_and_what_does_not_fit_it(record: bytes, spec: Any, error: Any, text: str) -> None:
    with pytest.raises(error) as caught:
        load(framed(record), spec).count()
    assert str(caught.value).startswith(text)
    if " of record 0" in text:
        assert "a.tfrecord" in "".join(caught.value.__notes__)


# Length, resuming, and what is left out


def test_failing_records_are_left_out(tmp_path: Path) -> None:
    records = [framed(example(n=[number])) for number in range(5)]
    corrupt, torn = records[3][:-1] + b"x", records[4][:9] + b"xxx" + records[4][12:]
    (tmp_path / "0").write_bytes(records[0] + records[1])
    (tmp_path / "1 empty").write_bytes(b"")
    (tmp_path / "2 mixed").write_bytes(
        records[2] + corrupt + framed(example(m=[1])) + framed(b"\xff") + records[3] + torn + records[4]
    )
    (tmp_path / "3").write_bytes(records[4])

    def make() -> Any:
        loaded = FileLister(str(tmp_path)).open_files("b").load_from_tfrecord({"n": ((), None)}, on_error="skip")
        return loaded.map(lambda found: int(found["n"]))

    dp = make()
    assert list(dp) == [0, 1, 2, 3, 4]
    stats = dp.stats()["load_from_tfrecord"]
    assert stats["skipped"] == 4
    assert "'n' of record 2" in stats["last_errors"][1]
    assert "2 mixed', 2, " in stats["last_errors"][1]
    assert_resumes_everywhere(make, passes=2)
    iterator = iter(dp)
    for _ in range(4):  # past what is left out
        next(iterator)
    resumed = make()
    resumed.load_state_dict(dp.state_dict())
    assert list(resumed) == [4]
    assert resumed.stats()["load_from_tfrecord"]["skipped"] == 4
