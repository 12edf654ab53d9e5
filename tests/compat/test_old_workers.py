"""Workers know the old import paths, whoever starts them and however the program got the paths."""

from __future__ import annotations

import pytest
from old_paths import run, script


def test_workers_import_the_users_modules_that_need_the_old_paths(tmp_path):
    script(
        tmp_path,
        """
        from torchdata.datapipes.iter import IterDataPipe
        class Doubled(IterDataPipe):
            def __init__(self, datapipe): self.datapipe = datapipe
            def __iter__(self):
                for x in self.datapipe: yield 2 * x
        """,
        "theirs.py",
    )
    code = """
        from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
        from torchdata.datapipes.iter import IterableWrapper
        from theirs import Doubled
        if __name__ == "__main__":
            dp = Doubled(IterableWrapper(range(4)).sharding_filter())
            for method in ("fork", "forkserver", "spawn"):
                service = MultiProcessingReadingService(num_workers=2, multiprocessing_context=method)
                loader = DataLoader2(dp, reading_service=service)
                print(list(loader))
                loader.shutdown()
        """
    result = run("-m", "penstock.compat", script(tmp_path, code))
    assert result.stdout == 3 * "[0, 2, 4, 6]\n", result.stderr


@pytest.mark.parametrize("program", [["program.py"], ["-m", "program"]], ids=["script", "module"])
def test_torchs_workers_too(tmp_path, program):
    code = """
        from torch.utils.data import DataLoader
        from torchdata.datapipes.iter import IterableWrapper
        def double(x):
            return 2 * x
        if __name__ == "__main__":
            dp = IterableWrapper(range(4)).sharding_filter().map(double)
            for method in ("fork", "forkserver", "spawn"):
                print(sorted(DataLoader(dp, num_workers=1, batch_size=None, multiprocessing_context=method)))
        """
    script(tmp_path, code)
    result = run("-m", "penstock.compat", *program, cwd=tmp_path)
    assert result.stdout == 3 * "[0, 2, 4, 6]\n", result.stderr


TIMES = """
from torchdata.datapipes.iter import IterDataPipe

class Times(IterDataPipe):
    def __init__(self, datapipe, number):
        self.datapipe, self.number = datapipe, number
    def __iter__(self):
        for x in self.datapipe:
            yield self.number * x

def collate(batch):
    return batch
"""

READ = """
def read(*methods):
    from times import Times, collate
    from torch.utils.data import DataLoader
    from torchdata.datapipes.iter import IterableWrapper
    dp = Times(IterableWrapper(range(4)), 3)
    for method in methods:
        print(*DataLoader(dp, num_workers=1, batch_size=2, collate_fn=collate, multiprocessing_context=method))
"""

INSTALL = "import penstock.compat; penstock.compat.install()"
GUARD = "if __name__ == '__main__':\n    {}\n    from read import read; read({!r})"

WAYS = {
    "under a guard": (["program.py"], GUARD.format(INSTALL, "forkserver")),
    "on import of a package": (["program.py"], GUARD.format("import installing", "spawn")),
    "without a file, as in a notebook": (["-c", f"{INSTALL}; from read import read; read('forkserver', 'spawn')"], ""),
    "in a plug-in of pytest": (
        ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "installing", "program.py"],
        "def test_it():\n    from read import read; read('spawn')",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_chain_brings_the_paths_to_torchs_workers(tmp_path, way):
    arguments, program = WAYS[way]
    for name, code in {"times": TIMES, "read": READ, "installing": INSTALL, "program": program}.items():
        script(tmp_path, code, f"{name}.py")
    result = run(*arguments, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert "[0, 3] [6, 9]\n" in result.stdout, result.stdout + result.stderr


def test_torchs_workers_read_a_dataset_that_is_no_chain(tmp_path):
    script(
        tmp_path,
        """
        from torch.utils.data import Dataset
        from torchdata.datapipes.iter import IterableWrapper
        class Words(Dataset):
            def __init__(self, words): self.words = words
            def __len__(self): return len(self.words)
            def __getitem__(self, at): return [*IterableWrapper(self.words[at])]
        """,
        "words.py",
    )
    code = f"""
        if __name__ == "__main__":
            {INSTALL}
            from torch.utils.data import DataLoader
            from words import Words
            for method in ("forkserver", "spawn"):
                print(*DataLoader(Words(["ab", "c"]), num_workers=2, batch_size=None, multiprocessing_context=method))
        """
    result = run(script(tmp_path, code))
    assert result.stdout == 2 * "['a', 'b'] ['c']\n", result.stderr


def test_a_process_of_the_programs_own_has_the_paths(tmp_path):
    theirs = "import torchdata.dataloader2\ndef show(): print(torchdata.dataloader2.DataLoader2.__name__)"
    script(tmp_path, theirs, "theirs.py")
    code = f"""
        if __name__ == "__main__":
            {INSTALL}
            import multiprocessing, theirs
            child = multiprocessing.get_context("spawn").Process(target=theirs.show)
            child.start()
            child.join()
        """
    result = run(script(tmp_path, code))
    assert result.stdout == "DataLoader2\n", result.stderr


def test_a_chain_that_was_pickled_brings_the_paths_wherever_it_is_loaded(tmp_path):
    script(tmp_path, TIMES, "times.py")
    make = "chain = times.Times(penstock.map.SequenceWrapper([1, 2]), 3)"
    write = f"{INSTALL}; import pickle, times; {make}; pickle.dump(chain, open('c', 'wb'))"
    assert run("-c", write, cwd=tmp_path).returncode == 0
    result = run("-c", "import pickle; print([*pickle.load(open('c', 'rb'))])", cwd=tmp_path)
    assert result.stdout == "[3, 6]\n", result.stderr
