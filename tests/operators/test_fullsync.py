"""fullsync: ranks, as real processes, stop together, whatever becomes of one of them."""

import pytest
import torch.distributed as dist

import penstock as ps
from ranks import run_ranks

numbers = ps.iter.IterableWrapper


def test_uneven_ranks_stop_together_and_leave_no_thread(tmp_path):
    said = run_ranks(
        tmp_path,
        """
        import psutil, threading
        from penstock.registry import apply_sharding
        dp = ps.iter.IterableWrapper(range(7)).sharding_filter().fullsync(timeout=20)
        apply_sharding(dp, ranks, rank)
        before = threading.active_count(), psutil.Process().num_threads()
        say([list(dp), list(dp)])
        del dp
        dist.barrier()
        after = threading.active_count(), psutil.Process().num_threads()
        say(after[0] - before[0])
        for _ in range(5):
            chain = ps.iter.IterableWrapper(range(2)).fullsync(timeout=20)
            list(chain)
            del chain
        say(psutil.Process().num_threads() - after[1])
        """,
    )
    assert said[0][0] == [[0, 2, 4]] * 2
    assert said[1][0] == [[1, 3, 5]] * 2
    assert [rest[1] for rest in said] == [0, 0]
    assert all(rest[2] <= 2 for rest in said)  # gloo's own: not more with every chain


def test_ranks_that_resume_at_different_places_lose_nothing(tmp_path):
    said = run_ranks(
        tmp_path,
        """
        from penstock.registry import apply_sharding
        def chain():
            dp = ps.iter.IterableWrapper(range(15)).sharding_filter().fullsync(timeout=20)
            apply_sharding(dp, ranks, rank)
            return dp
        dp = chain()
        iterator = iter(dp)
        head = [next(iterator) for _ in range(2 + 3 * rank)]
        state = dp.state_dict()
        rest = list(iterator) if rank else [next(iterator) for _ in range(3)] + list(iterator)
        resumed = chain()
        resumed.load_state_dict(state)
        say([head, rest, list(resumed)])
        """,
    )
    assert said[0][0] == [[0, 2], [4, 6, 8, 10, 12], [4, 6, 8, 10, 12]]
    assert said[1][0] == [[1, 3, 5, 7, 9], [11, 13], [11, 13]]


def test_where_one_rank_fails_the_others_say_so_at_once(tmp_path):
    said = run_ranks(
        tmp_path,
        """
        def fails(x):
            if rank == 1 and x == 2:
                raise KeyError("gone")
            return x
        dp = ps.iter.IterableWrapper(range(5)).map(fails).fullsync(timeout=20)
        seen = []
        try:
            for x in dp:
                seen.append(x)
        except Exception as error:
            say([seen, type(error).__name__, str(error)])
        """,
    )
    assert said[0] == [[[0, 1], "RuntimeError", "all ranks stop here: the source of rank 1 failed: KeyError: 'gone'"]]
    assert said[1] == [[[0, 1], "KeyError", "'gone'"]]


def test_a_rank_that_does_not_answer_is_waited_for_no_longer_than_the_timeout(tmp_path):
    said = run_ranks(
        tmp_path,
        """
        import time
        dp = ps.iter.IterableWrapper(range(3)).fullsync(timeout=1)
        iterator = iter(dp)
        say(next(iterator))
        if rank == 1:
            time.sleep(4)
        else:
            try:
                next(iterator)
            except RuntimeError as error:
                say(str(error))
        """,
    )
    assert said[1] == [0]
    assert said[0][1].startswith(
        "rank 0 was to ask for an item of pass 1 over a fullsync, and rank 1 did not: it has ended"
    )


def test_ranks_in_different_passes_are_told(tmp_path):
    said = run_ranks(
        tmp_path,
        """
        dp = ps.iter.IterableWrapper(range(4)).fullsync(timeout=10)
        iterator = iter(dp)
        next(iterator)
        if rank == 1:
            iterator = iter(dp)  # begins anew, while the other goes on
        try:
            next(iterator)
        except RuntimeError as error:
            say(str(error))
        """,
    )
    for rank in said:
        assert "not in step: rank 0: ask for an item of pass 1 over a fullsync; rank 1: ask for" in rank[0]


def test_without_ranks_it_is_an_error_that_says_what_to_do():
    if dist.is_initialized():
        dist.destroy_process_group()
    dp = numbers(range(3)).fullsync()
    with pytest.raises(RuntimeError, match=r"call torch.distributed.init_process_group before"):
        list(dp)
    with pytest.raises(TypeError):
        len(dp)
    with pytest.raises(ValueError, match="timeout must be seconds, more than 0, and is 0"):
        numbers([]).fullsync(timeout=0)


def test_a_world_begun_anew_is_joined_anew():
    if dist.is_initialized():
        dist.destroy_process_group()
    dp = numbers(range(3)).fullsync()
    for _ in range(2):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            assert list(dp) == list(dp) == [0, 1, 2]
        finally:
            dist.destroy_process_group()
