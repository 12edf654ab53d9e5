"""Tokenizers, and the transforms of torchvision and torchaudio, are functions in a chain like any other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import torch

import penstock as ps

pytestmark = pytest.mark.timeout(50)

TEXTS = ["a pipe feeds the turbine", "the turbine turns", "water", "the water turns the turbine"]
rows = ps.iter.IterableWrapper([{"text": text, "label": number} for number, text in enumerate(TEXTS)])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(special_tokens=["[PAD]", "[UNK]"], vocab_size=60, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    return made


def decoded(tokenizer: Any, ids: Any) -> str:
    """The text of ids, of which each stands for a part of a word."""
    return "".join(tokenizer.id_to_token(number) for number in ids if number)


def test_a_tokenizer_maps_batches_of_columns(tokenizer: Any) -> None:
    def padded(texts: list[str]) -> torch.Tensor:
        encoded = [torch.tensor(each.ids) for each in tokenizer.encode_batch(texts)]
        return torch.nn.utils.rnn.pad_sequence(encoded, batch_first=True)

    table = pa.record_batch({"text": TEXTS, "label": [0, 1, 2, 3]})
    dp = ps.iter.IterableWrapper([table]).to_tensors().map(padded, input_col="text", output_col="ids")
    first, second = dp.rebatch(2)
    for batch, texts in ((first, TEXTS[:2]), (second, TEXTS[2:])):
        assert [decoded(tokenizer, ids) for ids in batch["ids"].tolist()] == [text.replace(" ", "") for text in texts]
    assert second["label"].tolist() == [2, 3]


def test_a_tokenizer_travels_to_processes(tokenizer: Any) -> None:
    ids = rows.processpool_map(lambda row: tokenizer.encode(row["text"]).ids, workers=1)
    assert [decoded(tokenizer, row) for row in ids] == [text.replace(" ", "") for text in TEXTS]
