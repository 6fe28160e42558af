"""The tokenizer in the workers of a `DataLoader`, started either way, and in threads: the same ids as alone."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.utils.data import DataLoader, Dataset

TEXTS = [
    "아버지가 방에 들어가셨다.",
    "그 영화 재밌었다 ㅋㅋ 😀",
    "서울특별시 강남구",
    "𠮷野家에서 밥을 먹었다",
    "",
    "(가) 3.14%",
] * 4


class Tokenized(Dataset):
    """Each text as its ids and offsets."""

    def __init__(self, tokenizer) -> None:
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        return len(TEXTS)

    def __getitem__(self, place: int) -> tuple[list[int], list[tuple[int, int]]]:
        row = self.tokenizer(TEXTS[place], return_offsets_mapping=True)
        return row["input_ids"], row["offset_mapping"]


@pytest.mark.parametrize(
    ("way", "num_workers"),
    [("fork", 1), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("spawn", 1), ("fork", 2), ("spawn", 2)))],
)
def test_workers_of_a_loader_find_the_same_ids(tokenizer, way, num_workers) -> None:
    """After the parent has used its own Kiwi, whose threads do not survive a fork."""
    alone = [Tokenized(tokenizer)[place] for place in range(len(TEXTS))]
    tokenizer(TEXTS)
    loader = DataLoader(
        Tokenized(tokenizer),
        batch_size=None,
        num_workers=num_workers,
        timeout=300,
        multiprocessing_context=multiprocessing.get_context(way),
    )
    assert [(list(ids), [tuple(span) for span in offsets]) for ids, offsets in loader] == alone


def test_threads_find_the_same_ids_while_others_truncate_and_pad(tokenizer) -> None:
    """A call sets truncation and padding on the shared backend; no other call may see it."""

    def rows(number: int) -> list[list[int]]:
        settings = [{}, {"truncation": True, "max_length": 6}, {"padding": True}][number % 3]
        return tokenizer(TEXTS, **settings)["input_ids"]

    alone = [rows(number) for number in range(3)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(rows, range(60)))
    assert found == [alone[number % 3] for number in range(60)]
