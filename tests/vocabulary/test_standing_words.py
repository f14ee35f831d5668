"""Standing words: whatever a source sentence is made of can be copied, and frequent words, digits
and bytes that were seen are there."""

import numpy as np
import torch
from tiny import ENCODER_DIM

from anydepth.model.source import EncodedSource
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, train_tokenizer
from anydepth.vocabulary.standing_words import always_words, standing_words

GERMAN = ["der hund läuft 1 2 3", "die katze schläft um 4 5", "zwölf hunde"]
ENGLISH = ["the dog runs 1 2 3", "the cat sleeps at 4 5", "twelve dogs"]
JOINT = train_tokenizer(GERMAN + ENGLISH, vocab_size=310)
SOURCE, TARGET = train_tokenizer(GERMAN, vocab_size=295), train_tokenizer(ENGLISH, vocab_size=299)
UNSEEN = ["Łukasz Żółty 1987", "naïve 東京 der", "hund 12345"]


def allowed_pieces(source: Tokenizer, target: Tokenizer, line: str) -> set[str]:
    """The standing words of one line where nothing stands ready always but EOS."""
    words = standing_words(source, target, np.array([EOS], np.int32))
    tokens, mask = make_source([source.encode(line)])
    allowed = words.allowed(EncodedSource(tokens, mask, torch.zeros(*tokens.shape, ENCODER_DIM)))
    return set(target.pieces(allowed[0].nonzero()[:, 0].tolist()))


def test_every_piece_of_the_source_can_be_copied_from_a_joint_vocabulary() -> None:
    for line in UNSEEN:
        pieces = JOINT.pieces(JOINT.encode(line))
        assert set(pieces) <= allowed_pieces(JOINT, JOINT, line)
    assert any("<0x" in piece for piece in JOINT.pieces(JOINT.encode(UNSEEN[0]))), "else this shows little"


def test_pieces_are_copied_by_their_text_between_vocabularies_and_bytes_always() -> None:
    written = set(TARGET.pieces(range(TARGET.size)))
    for line in UNSEEN:
        pieces = set(SOURCE.pieces(SOURCE.encode(line)))
        assert pieces & written <= allowed_pieces(SOURCE, TARGET, line)
        assert pieces & written, "else this shows little"


def test_a_sentence_with_one_byte_may_spell_any_character() -> None:
    every = {f"<0x{byte:02X}>" for byte in range(256)}
    for source, target in ((JOINT, JOINT), (SOURCE, TARGET)):
        assert every <= allowed_pieces(source, target, "東")
        assert not every & allowed_pieces(source, target, "der hund")


def test_control_pieces_are_never_copied() -> None:
    for source, target in ((JOINT, JOINT), (SOURCE, TARGET)):
        copies = standing_words(source, target, np.array([EOS], np.int32)).copies
        assert copies[[PAD, BOS, EOS, UNK]].tolist() == [-1] * 4
        assert ((copies >= -1) & (copies < target.size)).all()
    assert standing_words(JOINT, JOINT, np.array([EOS], np.int32)).copies[4:].tolist() == list(range(4, JOINT.size))


def test_frequent_pieces_digits_and_seen_bytes_are_always_there() -> None:
    occurrences = np.zeros(TARGET.size, np.int64)
    for line in [*ENGLISH, "the the the Ł"]:
        np.add.at(occurrences, TARGET.encode(line), 1)
    always = always_words(TARGET, occurrences, frequent=2)
    pieces = set(TARGET.pieces(always))
    assert (np.diff(always) > 0).all()
    often = {piece for piece in ("\u2581the",) if piece in TARGET.pieces(range(TARGET.size))}
    digits = {piece for piece in TARGET.pieces(range(TARGET.size)) if piece.strip("\u2581") in list("0123456789")}
    digits -= {"\u2581"}
    seen_bytes = {f"<0x{byte:02X}>" for byte in "Ł".encode()}
    assert often | digits | seen_bytes | {"</s>"} <= pieces
    assert len(pieces) <= 2 + len(digits) + len(seen_bytes) + 1
    assert len(always_words(TARGET, occurrences, frequent=0)) == len(digits) + len(seen_bytes) + 1
