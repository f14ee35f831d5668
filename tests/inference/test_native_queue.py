"""The line of an open search: owners take turns, in an order that no clock has a say in."""

import pytest
from inference.native_searches import needs_native

from anydepth.inference.engines.native.native_engine import _native

pytestmark = needs_native

BOOK, WORD, LETTER = 5, 3, 8  # owners
ALL = 1000  # places, more than anybody needs


def queue_of(*lines: tuple[int, list[int]]) -> "_native.Queue":
    """A queue to which each owner has submitted sentences of these numbers, one owner after the
    other."""
    queue = _native.Queue()
    for owner, numbers in lines:
        for number in numbers:
            queue.submit(number, owner)
    return queue


@pytest.mark.parametrize("under_way", [0, 1, 2, 7])
def test_a_word_comes_next_however_long_the_book_before_it_is(under_way: int) -> None:
    queue = queue_of((BOOK, list(range(60))))
    assert [queue.take(1, ALL) for _ in range(under_way)] == [[number] for number in range(under_way)]
    queue.submit(100, WORD)
    assert queue.take(1, ALL) == [100]
    assert queue.take(ALL, ALL) == list(range(under_way, 60))


def test_owners_take_turns_one_sentence_each_and_each_in_the_order_of_its_own() -> None:
    queue = queue_of((BOOK, [0, 1, 2, 3]), (WORD, [10]), (LETTER, [20, 21]))
    assert queue.take(ALL, ALL) == [10, 0, 20, 1, 21, 2, 3]


def test_turns_go_on_where_they_were_though_places_come_one_by_one() -> None:
    queue = queue_of((BOOK, [0, 1, 2]), (LETTER, [20, 21, 22]))
    assert [queue.take(1, ALL) for _ in range(3)] == [[0], [20], [1]]
    queue.submit(10, WORD)
    assert [queue.take(1, ALL) for _ in range(4)] == [[21], [10], [2], [22]]
    assert queue.take(1, ALL) == []


def test_who_comes_with_many_owners_before_them_waits_for_one_sentence_of_each() -> None:
    queue = queue_of(*((owner, [10 * owner, 10 * owner + 1]) for owner in range(1, 6)))
    assert queue.take(1, ALL) == [10]
    queue.submit(1000, 6)
    assert queue.take(5, ALL) == [20, 30, 40, 50, 1000]


def test_no_more_is_taken_than_there_are_places_while_others_may_come() -> None:
    queue = queue_of((BOOK, [0, 1, 2]))
    assert queue.take(0, ALL) == []
    assert queue.take(2, ALL) == [0, 1]
    queue.submit(10, WORD)
    queue.close()
    assert queue.take(0, ALL) == [10, 2], "nobody can come any more"


def test_a_cancelled_sentence_has_no_turn() -> None:
    queue = queue_of((BOOK, [0, 1]), (WORD, [10, 11]))
    assert queue.cancel(10) and not queue.cancel(10)
    assert queue.take(ALL, ALL) == [11, 0, 1]
