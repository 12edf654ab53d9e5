"""A text data set as libraries of data sets built them: downloaded and extracted once, parsed, shuffled, sharded."""

import os
import sys
from functools import partial

from torch.utils.data import DataLoader
from torchdata.datapipes.iter import Extractor, FileOpener, HttpReader, IterableWrapper

MEMBERS = {"train": "reviews_csv/train.csv", "test": "reviews_csv/test.csv"}


def _filepath_fn(root, _=None):
    return os.path.join(root, "reviews_csv.tar.gz")


def _extracted_filepath_fn(root, split, _=None):
    return os.path.join(root, MEMBERS[split])


def _filter_fn(split, x):
    return MEMBERS[split] in x[0]


def _modify_res(t):
    return int(t[0]), " ".join(t[1:])


def REVIEWS(url, md5, root, split):  # noqa: N802 - as such functions were called
    url_dp = IterableWrapper([url])
    cache_compressed_dp = url_dp.on_disk_cache(
        filepath_fn=partial(_filepath_fn, root),
        hash_dict={_filepath_fn(root): md5},
        hash_type="md5",
    )
    cache_compressed_dp = HttpReader(cache_compressed_dp).end_caching(mode="wb", same_filepath_fn=True)

    cache_decompressed_dp = cache_compressed_dp.on_disk_cache(filepath_fn=partial(_extracted_filepath_fn, root, split))
    cache_decompressed_dp = FileOpener(cache_decompressed_dp, mode="b")
    cache_decompressed_dp = Extractor(cache_decompressed_dp, file_type="gzip").load_from_tar()
    cache_decompressed_dp = cache_decompressed_dp.filter(partial(_filter_fn, split))
    cache_decompressed_dp = cache_decompressed_dp.end_caching(mode="wb", same_filepath_fn=True)

    data_dp = FileOpener(cache_decompressed_dp, encoding="utf-8")
    return data_dp.parse_csv().map(_modify_res).shuffle().set_shuffle(False).sharding_filter()


if __name__ == "__main__":
    url, md5, root = sys.argv[1:]
    train = REVIEWS(url, md5, root, "train")
    first = list(train)
    assert list(train) == first
    print(len(first), first[0], first[-1])
    print(list(REVIEWS(url, md5, root, "test")))
    shuffled = REVIEWS(url, md5, root, "train").shuffle()
    loader = DataLoader(shuffled, batch_size=4, shuffle=True, num_workers=2)
    seen = [(int(label), text) for labels, texts in loader for label, text in zip(labels, texts, strict=True)]
    assert sorted(seen) == sorted(first), seen
    print("loaded", len(seen))
