"""The lines of Ray Data's guide "Working with PyTorch", as it prints them: only the import and the addresses change.

Three lines differ, as the page docs/from_other_loaders.md says: after `map` a tensor stays a tensor (Ray makes an array
of it), a writer writes when it is read, as by `.run()`, and Ray Train takes `ds.to_ray_dataset()`.
"""

# ruff: noqa: UP006, UP035  # the guide's own annotations

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import torch
from torch import nn

from penstock.compat import ray
from s3 import serving_s3

BREAST_CANCER = Path(__file__).parents[2] / "tutorials/data/breast_cancer.csv"


@pytest.fixture
def images(tmp_path: Path) -> str:
    """A folder of three pictures of 32 by 32 pixels, whose names are their labels."""
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for label in range(3):
        pillow.new("RGB", (32, 32), (label, 0, 0)).save(tmp_path / f"{label}.png")
    return str(tmp_path)


# Iterating over torch tensors for training


def test_iterating(images: str, capsys: pytest.CaptureFixture[str]) -> None:
    ds = ray.data.read_images(images)

    for batch in ds.iter_torch_batches(batch_size=2):
        print(batch)

    assert "{'image': tensor([[[[" in capsys.readouterr().out
    assert [batch["image"].shape for batch in ds.iter_torch_batches(batch_size=2)] == [(2, 32, 32, 3), (1, 32, 32, 3)]


@pytest.fixture(scope="module")
def breast_cancer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The guide's public table, on a server that looks for no signature."""
    with (
        serving_s3(tmp_path_factory.mktemp("public"), asks_for_keys=False) as server,
        pytest.MonkeyPatch.context() as env,
    ):
        folder = server.root / "air-example-data"
        folder.mkdir()
        shutil.copy(BREAST_CANCER, folder)
        env.setenv("AWS_ENDPOINT_URL", server.endpoint)
        yield


@pytest.fixture(scope="module")
def local_ray(breast_cancer: None, local_ray: None) -> None:
    """Ray, whose workers find the server too, as they begin with the environment of this moment."""


def train_func() -> Callable[[Any], int]:
    """Return the guide's loop: a function of `__main__` and notebooks, so that it is sent to workers by value."""

    def train(train_data_shard: Any) -> int:
        model = nn.Sequential(nn.Linear(30, 1), nn.Sigmoid())
        loss_fn = torch.nn.BCELoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

        rows = 0
        for epoch_idx in range(2):  # noqa: B007
            for batch in train_data_shard.iter_torch_batches(batch_size=128, dtypes=torch.float32):
                features = torch.stack([batch[col_name] for col_name in batch.keys() if col_name != "target"], axis=1)  # type: ignore[call-overload]  # noqa: SIM118
                predictions = model(features)
                train_loss = loss_fn(predictions, batch["target"].unsqueeze(1))
                train_loss.backward()
                optimizer.step()
                rows += len(features)
        return rows

    return train


def test_training(breast_cancer: None) -> None:
    train_dataset = ray.data.read_csv("s3://anonymous@air-example-data/breast_cancer.csv")
    assert train_func()(train_dataset) == 2 * 569


@pytest.mark.timeout(180)  # Ray Train starts two workers, each of which imports torch
def test_training_by_ray_train(breast_cancer: None, local_ray: None, tmp_path: Path) -> None:
    from ray import train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    loop = train_func()

    def train_loop() -> None:
        (tmp_path / "rows").write_text(str(loop(train.get_dataset_shard("train"))))

    train_dataset = ray.data.read_csv("s3://anonymous@air-example-data/breast_cancer.csv")
    trainer = TorchTrainer(
        train_loop,
        datasets={"train": train_dataset.to_ray_dataset()},  # the guide: train_dataset
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=str(tmp_path / "runs")),  # the guide's runs are kept in the home folder
    )
    trainer.fit()
    assert (tmp_path / "rows").read_text() == str(2 * 569)


# Transformations with torch tensors


def check_numpy(row: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    assert isinstance(row["tensor"], np.ndarray)
    return row


def test_map(images: str, capsys: pytest.CaptureFixture[str]) -> None:
    ds = ray.data.read_images(images)

    def convert_to_torch(row: Dict[str, np.ndarray]) -> Dict[str, torch.Tensor]:
        return {"tensor": torch.as_tensor(row["image"])}

    transformed_ds = ds.map(convert_to_torch)
    print(transformed_ds.schema())
    assert capsys.readouterr().out == "name    dtype  shape\ntensor  uint8  (32, 32, 3)\n"

    # Subsequent transformations take in Numpy array as input.
    checked = transformed_ds.map(check_numpy)
    with pytest.raises(AssertionError):  # what `map` hands on stays as the function gave it
        checked.take_all()
    checked = ds.map(lambda row: {"tensor": convert_to_torch(row)["tensor"].numpy()}).map(check_numpy)
    assert len(checked.take_all()) == 3


def test_map_batches(images: str, capsys: pytest.CaptureFixture[str]) -> None:
    ds = ray.data.read_images(images)

    def convert_to_torch(batch: Dict[str, np.ndarray]) -> Dict[str, torch.Tensor]:
        return {"tensor": torch.as_tensor(batch["image"])}

    transformed_ds = ds.map_batches(convert_to_torch, batch_size=2)
    print(transformed_ds.schema())
    assert capsys.readouterr().out == "name    dtype  shape\ntensor  uint8  (32, 32, 3)\n"

    # Subsequent transformations take in Numpy array as input.
    assert len(transformed_ds.map_batches(check_numpy, batch_size=2).take_all()) == 3


def test_torchvision(images: str, capsys: pytest.CaptureFixture[str]) -> None:
    transforms = pytest.importorskip("torchvision.transforms", reason="torchvision is not installed")

    ds = ray.data.read_images(images)
    transform = transforms.Compose([transforms.ToTensor(), transforms.CenterCrop(10)])

    def transform_image(row: Dict[str, np.ndarray]) -> Dict[str, torch.Tensor]:
        row["transformed_image"] = transform(row["image"])
        return row  # type: ignore[return-value]

    transformed_ds = ds.map(transform_image)
    print(transformed_ds.schema())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=2) for line in lines[1:]] == [
        ["image", "uint8", "(32, 32, 3)"],
        ["transformed_image", "float32", "(3, 10, 10)"],
    ]


def test_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "simple.txt").write_text("one line\nanother line\nthe last\n")
    ds = ray.data.read_text(str(tmp_path / "simple.txt"))

    def transform(texts: List[str]) -> List[List[str]]:  # stands for BERTTokenizer
        return [text.split() for text in texts]

    def tokenize_text(batch: Dict[str, np.ndarray]) -> Dict[str, List[str]]:
        batch["tokenized_text"] = transform(list(batch["text"]))  # type: ignore[assignment]
        return batch  # type: ignore[return-value]

    transformed_ds = ds.map_batches(tokenize_text, batch_size=2)
    print(transformed_ds.schema())
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["name", "text", "tokenized_text"]
    assert transformed_ds.take_all()[2] == {"text": "the last", "tokenized_text": ["the", "last"]}


# Batch inference with PyTorch


def predictor() -> type:
    """Return the guide's class: one of `__main__` and notebooks, so that it is sent to workers by value."""

    class TorchPredictor:
        def __init__(self) -> None:
            self.model = nn.Sequential(
                nn.Linear(in_features=100, out_features=1),
                nn.Sigmoid(),
            )
            self.model.eval()

        def __call__(self, batch: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
            tensor = torch.as_tensor(batch["data"], dtype=torch.float32)
            with torch.inference_mode():
                return {"output": self.model(tensor).numpy()}

    return TorchPredictor


def test_inference(capsys: pytest.CaptureFixture[str]) -> None:
    ds = ray.data.from_numpy(np.ones((1, 100)))

    TorchPredictor = predictor()  # noqa: N806
    scale = ray.data.ActorPoolStrategy(size=2)
    predictions = ds.map_batches(TorchPredictor, compute=scale)
    predictions.show(limit=1)

    assert "0: {'output': ndarray of shape (1, 1), float32}" in capsys.readouterr().out
    (batch,) = predictions
    assert 0 < batch["output"].item() < 1


def test_a_pool_that_grows_is_an_error_that_says_its_mend() -> None:
    for sizes in ({"min_size": 1, "max_size": 2}, {"size": 1, "initial_size": 1}):
        with pytest.raises(TypeError, match=r"takes no (min|initial)_size: .*ActorPoolStrategy\(size=2\)"):
            ray.data.ActorPoolStrategy(**sizes)


def test_inference_on_actors_of_ray(local_ray: None) -> None:
    import ray as ray_module

    ds = ray.data.from_numpy(np.ones((8, 100)))
    scale = ray_module.data.ActorPoolStrategy(size=2)
    predictions = ds.map_batches(predictor(), compute=scale, batch_size=2)
    assert "engine='ray'" in repr(predictions)
    assert [batch["output"].shape for batch in predictions] == [(2, 1)] * 4


# Saving Datasets containing torch tensors


def test_saving_parquet_and_numpy(tmp_path: Path) -> None:
    tensor = torch.Tensor(1)
    ds = ray.data.from_items([{"tensor": tensor}])

    ds.write_parquet(f"local://{tmp_path}/tensor").run()

    (batch,) = ray.data.read_parquet(f"local://{tmp_path}/tensor").iter_torch_batches(batch_size=1)
    assert torch.equal(batch["tensor"][0], tensor)

    ds.write_numpy(f"local://{tmp_path}/numpy", column="tensor").run()

    (batch,) = ray.data.read_numpy(f"local://{tmp_path}/numpy").iter_torch_batches(batch_size=1)
    assert torch.equal(batch["data"][0], tensor)


# Migrating from PyTorch Datasets and DataLoaders


def test_from_torch() -> None:
    datasets = pytest.importorskip("torchvision.datasets", reason="torchvision is not installed")
    mnist = datasets.FakeData(size=3, image_size=(1, 28, 28))  # MNIST would be downloaded
    ds = ray.data.from_torch(mnist)
    assert ds.schema().names == ["item"]
    image, label = ds.take(1)[0]["item"]
    assert image.size == (28, 28)
    assert 0 <= int(label) < 10


def test_custom_datasets(images: str) -> None:
    transforms = pytest.importorskip("torchvision.transforms", reason="torchvision is not installed")
    ds = ray.data.read_images(images, include_paths=True)

    # Extract the label from the file path.
    def extract_label(row: dict) -> dict:  # type: ignore[type-arg]
        filepath = row["path"]
        last_slash_idx = filepath.rfind("/")
        dot_idx = filepath.rfind(".")
        label = int(filepath[last_slash_idx + 1 : dot_idx])
        row["label"] = label
        return row

    transform = transforms.Compose(
        [
            transforms.ToTensor(),
            transforms.Resize((128, 128)),
            transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ]
    )

    # Preprocess the images.
    def transform_image(row: dict) -> dict:  # type: ignore[type-arg]
        row["transformed_image"] = transform(row["image"])
        return row

    # Map the transformations over the dataset.
    ds = ds.map(extract_label).map(transform_image)
    assert [(row["label"], row["transformed_image"].shape) for row in ds] == [(n, (3, 128, 128)) for n in range(3)]


def test_the_arguments_of_a_dataloader(images: str) -> None:
    """The table of the guide: an argument of `iter_torch_batches` for each of the DataLoader's."""
    ds = ray.data.read_images(images).select_columns(["image"])
    loader = ds.iter_torch_batches(
        batch_size=2,
        local_shuffle_buffer_size=3,
        drop_last=True,
        prefetch_batches=4,
        device="cpu",
    )
    assert [batch["image"].shape for batch in loader] == [(2, 32, 32, 3)]
    counted = ds.iter_torch_batches(batch_size=2, collate_fn=lambda batch: batch["image"].shape)
    assert list(counted) == [(2, 32, 32, 3), (1, 32, 32, 3)]


# What else people type of Ray Data


def test_thin_spellings() -> None:
    ds = ray.data.range(10)
    assert ds.limit(3).rows().take_all() == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert [batch["id"].tolist() for batch in ds.iter_batches(batch_size=5, batch_format="numpy")] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]
    assert ds.rename_columns({"id": "n"}).select_columns("n").schema().names == ["n"]
    assert ds.drop_columns(["id"]).schema().names == []
    train, test = ds.train_test_split(0.2)
    ids = [row["id"] for part in (train, test) for row in part.rows()]
    assert sorted(ids) == list(range(10))
    assert sorted(row["id"] for row in ds.random_shuffle(seed=1).rows()) == list(range(10))
    assert ray.data.from_items([1, 2]).take_all() == [{"item": 1}, {"item": 2}]
