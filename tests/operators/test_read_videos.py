"""Clips of videos, and sound: what comes out is what ffmpeg's own program decodes."""

from __future__ import annotations

import io
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
import videos
from fault_proxy import Fault, FaultProxy
from penstock.pipes.files import videos as decoding
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.iter.decode import decode_audio, decode_video
from s3 import S3Server
from videos import by_ffmpeg, frames_by_ffmpeg, samples_by_ffmpeg

needs_codec = pytest.mark.skipif(bool(videos.LACKING), reason=videos.LACKING)
HEIGHT, WIDTH = 48, 64


def picture(rate: str, seconds: float) -> list[str]:
    return ["-f", "lavfi", "-i", f"testsrc=size={WIDTH}x{HEIGHT}:rate={rate}:duration={seconds}"]


def tone(seconds: float, rate: int = 8000) -> list[str]:
    return ["-f", "lavfi", "-i", f"sine=frequency=440:sample_rate={rate}:duration={seconds}"]


MADE = {
    "h264.mp4": [*picture("10", 3), *tone(3), "-c:v", "libx264", "-g", "12", "-bf", "2", "-c:a", "aac"],
    "mpeg4.mp4": [*picture("30000/1001", 2), "-c:v", "mpeg4", "-g", "7", "-bf", "2"],
    "h264.mkv": [*picture("30000/1001", 2), *tone(1.2), "-c:v", "libx264", "-bf", "3", "-g", "20", "-c:a", "flac"],
    "vp9.webm": [*picture("25", 1), "-c:v", "libvpx-vp9", "-g", "10"],
    "mjpeg.avi": [*picture("12", 2), "-c:v", "mjpeg"],
    "uneven.mp4": [*picture("20", 3), "-vf", r"select=not(mod(n\,3)*mod(n\,7))", "-vsync", "vfr", "-c:v", "libx264"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("videos")
    for name, arguments in MADE.items():
        by_ffmpeg(made / name, *arguments, "-pix_fmt", "yuvj420p" if name == "mjpeg.avi" else "yuv420p")
    return made


def clips_of(path: Path, **arguments: Any) -> list[dict[str, Any]]:
    return [*IterableWrapper([str(path)]).read_videos(**arguments)]


@needs_codec
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("way", [{"frames": 7}, {"seconds": 0.35}, {"frames": 1}, {"seconds": 100}])
def test_the_frames_of_all_clips_are_those_of_ffmpeg(folder: Path, name: str, way: Any) -> None:
    expected = frames_by_ffmpeg(folder / name, HEIGHT, WIDTH)
    clips = clips_of(folder / name, **way)
    assert torch.equal(torch.cat([clip["video"] for clip in clips]), expected)
    times = torch.cat([clip["pts"] for clip in clips])
    assert len(times) == len(expected)
    assert bool((times.diff() > 0).all())
    if "frames" in way:
        assert {len(clip["pts"]) for clip in clips[:-1]} <= {way["frames"]}
    else:
        for number, clip in enumerate(clips):
            within = clip["pts"] - times[0]
            assert bool(((number * way["seconds"] <= within + 1e-9) & (within < (number + 1) * way["seconds"])).all())


@needs_codec
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_clip_has_every_so_manieth_frame(folder: Path, stride: int) -> None:
    all_frames = frames_by_ffmpeg(folder / "h264.mp4", HEIGHT, WIDTH)
    clips = clips_of(folder / "h264.mp4", frames=4, stride=stride)
    spans = range(0, 30, 4 * stride)
    assert len(clips) == len(spans)
    for begin, clip in zip(spans, clips, strict=True):
        assert torch.equal(clip["video"], all_frames[begin : begin + 4 * stride : stride])
        assert clip["pts"].tolist() == pytest.approx(
            [n / 10 for n in range(begin, begin + 4 * stride, stride) if n < 30]
        )
    by_time = clips_of(folder / "h264.mp4", seconds=1, stride=stride)
    assert [len(clip["pts"]) for clip in by_time] == [len(range(0, 10, stride))] * 3
    assert torch.equal(by_time[1]["video"], all_frames[10:20:stride])


@needs_codec
def test_a_last_clip_that_is_shorter_is_left_out_on_request(folder: Path) -> None:
    for way, lengths in (({"frames": 8}, [8, 8, 8]), ({"seconds": 1.3}, [13, 13]), ({"seconds": 0.1}, [1] * 30)):
        clips = clips_of(folder / "h264.mp4", drop_last=True, **way)
        assert [len(clip["pts"]) for clip in clips] == lengths
    assert [len(clip["pts"]) for clip in clips_of(folder / "h264.mp4", seconds=1.3)] == [13, 13, 4]


@needs_codec
@pytest.mark.parametrize("way", [{"frames": 7}, {"seconds": 0.7}, {"frames": 3, "stride": 2}])
@pytest.mark.parametrize("at_once", [0.05, 0.8, 120.0])
@pytest.mark.parametrize(("name", "seconds"), [("h264.mp4", 3), ("h264.mkv", 1.2)])
def test_the_sound_of_clips_is_that_of_ffmpeg_without_a_gap(
    folder: Path, name: str, seconds: float, at_once: float, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "_SOUND_AT_ONCE", at_once)
    clips = clips_of(folder / name, audio=True, **way)
    assert {clip["sample_rate"] for clip in clips} == {8000}
    sound = torch.cat([clip["audio"] for clip in clips], dim=1)
    assert sound.dtype == torch.float32
    assert sound.shape == (1, 8000 * seconds)  # the one of the video ends first: its last clips have no more
    assert torch.equal(sound, samples_by_ffmpeg(folder / name, 1)[:, : sound.shape[1]])


@needs_codec
def test_sound_that_begins_later_and_ends_earlier_stays_in_its_clips(tmp_path: Path) -> None:
    late = ["-itsoffset", "0.75", *tone(1)]
    path = by_ffmpeg(tmp_path / "a.mkv", *picture("10", 3), *late, "-c:v", "libx264", "-c:a", "pcm_s16le")
    clips = clips_of(path, seconds=0.5, audio=True)
    assert [clip["audio"].shape[1] for clip in clips] == [0, 2000, 4000, 2000, 0, 0]
    assert torch.equal(torch.cat([clip["audio"] for clip in clips], dim=1), samples_by_ffmpeg(path, 1))


@needs_codec
def test_sound_that_ends_within_a_frame_is_the_same_after_a_resume(tmp_path: Path) -> None:
    sound = tone(0.5, 44100)
    path = by_ffmpeg(tmp_path / "a.mp4", *picture("10", 2), *sound, "-c:v", "libx264", "-c:a", "aac")

    def make() -> Any:
        return IterableWrapper([str(path)]).read_videos(frames=5, audio=True)

    whole = [clip["audio"].tolist() for clip in make()]
    assert [len(sound[0]) > 0 for sound in whole] == [True, True, False, False]
    for read in (1, 2, 3):
        dp, resumed = make(), make()
        iterator = iter(dp)
        for _ in range(read):
            next(iterator)
        resumed.load_state_dict(dp.state_dict())
        assert [clip["audio"].tolist() for clip in resumed] == whole[read:]


@needs_codec
def test_clips_of_as_many_seconds_have_as_many_samples(folder: Path) -> None:
    for seconds, count in ((0.5, 6), (0.1, 30)):
        clips = clips_of(folder / "h264.mp4", seconds=seconds, audio=True)
        assert [clip["audio"].shape[1] for clip in clips] == [8000 * seconds] * count
        assert all(clip["audio"].untyped_storage().nbytes() == 4 * 8000 * seconds for clip in clips)


@needs_codec
def test_a_resumed_pass_decodes_no_frame_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = list[list[int]]()
    inner = decoding.codec().VideoDecoder.get_frames_at

    def watched(self: Any, indices: list[int]) -> Any:
        decoded.append(indices)
        return inner(self, indices)

    monkeypatch.setattr(decoding.codec().VideoDecoder, "get_frames_at", watched)

    def chain() -> Any:
        return IterableWrapper([str(folder / "h264.mp4")]).read_videos(frames=10)

    reading = iter(dp := chain())
    assert len(list(islice(reading, 2))) == 2
    resumed = chain()
    resumed.load_state_dict(dp.state_dict())
    decoded.clear()
    [last] = resumed
    assert decoded == [[*range(20, 30)]]
    assert torch.equal(last["video"], frames_by_ffmpeg(folder / "h264.mp4", HEIGHT, WIDTH)[20:])


@needs_codec
def test_a_video_in_an_object_store_is_read_by_ranges_and_retried(
    folder: Path, fault_proxy: FaultProxy, s3_server: S3Server
) -> None:
    content = (folder / "h264.mp4").read_bytes()
    (s3_server.root / "videos").mkdir(exist_ok=True)
    (s3_server.root / "videos" / "a.mp4").write_bytes(content)
    fault_proxy.play(Fault("reset", match="GET /videos/a.mp4", times=1))
    dp = IterableWrapper(["s3://videos/a.mp4"]).read_videos(frames=9, audio=True)
    expected = clips_of(folder / "h264.mp4", frames=9, audio=True)
    for clip, local in zip(dp, expected, strict=True):
        assert torch.equal(clip["video"], local["video"])
        assert torch.equal(clip["audio"], local["audio"])
    assert fault_proxy.played()["reset"] > 0


@needs_codec
def test_what_is_no_video_is_an_error_that_names_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_bytes(b"text")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "cut.mp4").write_bytes((folder / "h264.mp4").read_bytes()[:9000])
    by_ffmpeg(tmp_path / "sound.mp4", *tone(1), "-c:a", "aac")
    for name in ("text", "empty", "cut", "sound"):
        with pytest.raises(OSError, match="ffmpeg finds no video that it can decode: ") as caught:
            clips_of(tmp_path / f"{name}.mp4", frames=4)
        assert f"{name}.mp4" in "".join(caught.value.__notes__)
    with pytest.raises(OSError, match="ffmpeg finds no sound that it can decode: the file has no sound"):
        clips_of(folder / "vp9.webm", frames=4, audio=True)
    with pytest.raises(FileNotFoundError, match=r"none\.mp4"):
        clips_of(tmp_path / "none.mp4", frames=4)


@needs_codec
def test_a_matroska_file_that_was_cut_ends_with_its_last_whole_frame(folder: Path, tmp_path: Path) -> None:
    content = (folder / "h264.mkv").read_bytes()
    (tmp_path / "cut.mkv").write_bytes(content[: len(content) // 2])
    found = torch.cat([clip["video"] for clip in clips_of(tmp_path / "cut.mkv", frames=5)])
    assert 0 < len(found) < 60
    assert torch.equal(found, frames_by_ffmpeg(folder / "h264.mkv", HEIGHT, WIDTH)[: len(found)])


@needs_codec
def test_on_error_skips_a_video_or_tries_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.mp4").write_bytes(b"text")
    paths = [str(tmp_path / "text.mp4"), str(folder / "vp9.webm")]
    dp = IterableWrapper(paths).read_videos(frames=10, on_error="skip")
    assert [len(clip["pts"]) for clip in dp] == [10, 10, 5]
    assert dp.stats()["read_videos"]["skipped"] == 1

    inner, failures = decoding.Clips.__getitem__, [ConnectionError("down")]

    def failing(self: Any, number: int) -> Any:
        if number == 1 and failures:
            raise failures.pop()
        return inner(self, number)

    monkeypatch.setattr(decoding.Clips, "__getitem__", failing)
    again = IterableWrapper(paths[1:]).read_videos(frames=10, on_error=ps.Retry(2, 0))
    assert torch.equal(
        torch.cat([clip["video"] for clip in again]), frames_by_ffmpeg(folder / "vp9.webm", HEIGHT, WIDTH)
    )


def test_a_handler_without_torchcodec_says_that_it_does_not_work_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", None)
    with pytest.raises(ImportError, match="which does not work here"):
        decode_video("mp4", b"")


@pytest.fixture
def sounds(tmp_path: Path) -> dict[str, Path]:
    made = {"wav": ["-ac", "2"], "flac": ["-ac", "2"], "ogg": ["-c:a", "libvorbis", "-ac", "2"]}
    return {name: by_ffmpeg(tmp_path / f"a.{name}", *tone(0.5), *arguments) for name, arguments in made.items()}


@needs_codec
def test_routed_decode_decodes_videos_and_sound(folder: Path, sounds: dict[str, Path]) -> None:
    paths = [folder / "h264.mp4", folder / "vp9.webm", *sounds.values()]
    files = [(str(path), io.BytesIO(path.read_bytes())) for path in paths]
    dp = IterableWrapper([*files, ("a.txt", b"text"), ("a.raw", b"raw")], deepcopy=False)
    decoded = dict(dp.routed_decode("torch", decode_video, decode_audio))
    for path in paths[:2]:
        expected = frames_by_ffmpeg(path, HEIGHT, WIDTH)
        assert torch.equal(decoded[str(path)]["video"], expected)
        assert len(decoded[str(path)]["pts"]) == len(expected)
    for path in paths[2:]:
        assert decoded[str(path)]["sample_rate"] == 8000
        assert torch.equal(decoded[str(path)]["audio"], samples_by_ffmpeg(path, 2))
    assert (decoded["a.txt"], decoded["a.raw"]) == ("text", b"raw")


@needs_codec
def test_samples_of_tars_have_videos_and_sound(folder: Path, sounds: dict[str, Path]) -> None:
    sample = {"__key__": "1", ".mp4": (folder / "mpeg4.mp4").read_bytes(), ".flac": sounds["flac"].read_bytes()}
    [decoded] = IterableWrapper([sample]).routed_decode(decode_video, decode_audio)
    assert decoded[".mp4"]["video"].shape == (60, 3, HEIGHT, WIDTH)
    assert decoded[".flac"]["audio"].shape == (2, 4000)
    for content in (b"text", b""):
        with pytest.raises(OSError, match="ffmpeg finds no sound that it can decode: .*: Invalid data found"):
            list(IterableWrapper([("a.wav", content)]).routed_decode(decode_audio))
