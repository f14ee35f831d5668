"""Settings of search: what is asked for wins, the rest comes from the configuration, and all is
checked."""

import pytest

from anydepth.config.schema import DecodingConfig
from anydepth.errors import UsageError
from anydepth.limits import MOST_BATCH_TOKENS
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions, SearchSettings
from anydepth.text.batches import make_source

SENTENCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16]]
CONFIG = DecodingConfig(beam=3, length_penalty=0.7, length_ratio=1.25, length_offset=9, batch_tokens=77)


def test_what_is_not_asked_for_comes_from_the_configuration() -> None:
    assert AS_CONFIGURED.resolved(CONFIG) == SearchSettings(
        beam=3, length_penalty=0.7, length_ratio=1.25, length_offset=9, batch_tokens=77, best=1
    )
    assert AS_CONFIGURED.resolved(DecodingConfig()) == SearchSettings()


def test_what_is_asked_for_wins_even_where_it_is_zero() -> None:
    asked = DecodingOptions(beam=2, length_penalty=0.0, batch_tokens=5, best=2)
    assert asked.resolved(CONFIG) == SearchSettings(
        beam=2, length_penalty=0.0, length_ratio=1.25, length_offset=9, batch_tokens=5, best=2
    )
    with pytest.raises(UsageError, match=r"beam = 0 holds no hypothesis"):
        DecodingOptions(beam=0).resolved(CONFIG)
    with pytest.raises(UsageError, match=r"best = 4 must lie between 1 and beam = 3"):
        DecodingOptions(best=4).resolved(CONFIG)


@pytest.mark.parametrize("batch_tokens", [0, -5, MOST_BATCH_TOKENS + 1])
def test_a_batch_of_no_size_is_refused(batch_tokens: int) -> None:
    with pytest.raises(UsageError, match=rf"^batch_tokens = {batch_tokens} must lie between 1 and 16,777,216, as in"):
        DecodingOptions(batch_tokens=batch_tokens).resolved(CONFIG)


def test_the_limit_of_a_sentence_depends_on_its_own_length_only() -> None:
    settings = SearchSettings(length_ratio=1.5, length_offset=1)
    _, mask = make_source(SENTENCES)  # 7, 3 and 5 tokens with EOS
    assert settings.limits(mask, max_length=100).tolist() == [12, 6, 9]
    assert settings.limits(mask, max_length=8).tolist() == [8, 6, 8]


@pytest.mark.parametrize(("beam", "best"), [(5, 6), (5, 0)])
def test_more_hypotheses_than_the_beam_holds_are_refused(beam: int, best: int) -> None:
    with pytest.raises(
        UsageError, match=f"best = {best} must lie between 1 and beam = 5; lower best or widen the beam"
    ):
        SearchSettings(beam=beam, best=best)


def test_a_beam_without_room_is_refused() -> None:
    with pytest.raises(UsageError, match=r"beam = 0 holds no hypothesis; set it to 1 or more"):
        SearchSettings(beam=0)
