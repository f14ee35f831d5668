"""A lexical table as the vocabulary map that CTranslate2 reads."""

import re
from collections.abc import Sequence

from anydepth.vocabulary.lexical_table import TableSelection

MAP_NAME = "vmap.txt"
DIVIDER = re.compile(r"[ \t\r\n]")  # which the map puts between pieces, so that no piece in it may have one


def vocabulary_map(selection: TableSelection, source_pieces: Sequence[str], target_pieces: Sequence[str]) -> str:
    """The text of the map: a source piece, a tab and the target pieces that it brings, with spaces
    between them; the first line, without a source piece, has those that are always there.

    CTranslate2 lets all sentences of a batch choose among the words of all of them.
    """
    standing, cut = selection.table.standing, selection.cut
    byte_sources = set(standing.byte_sources.tolist())
    rows: list[tuple[str, list[int]]] = [("", standing.always.tolist())]
    for number, piece in enumerate(source_pieces):
        words = cut.words[cut.starts[number] : cut.starts[number + 1]].tolist()
        copied = [int(standing.copies[number])] if standing.copies[number] >= 0 else []
        spelling = standing.bytes.tolist() if number in byte_sources else []
        rows.append((piece, list(dict.fromkeys([*copied, *words, *spelling]))))
    return "".join(
        f"{piece}\t{' '.join(written)}\n"
        for piece, words in rows
        if not DIVIDER.search(piece)
        and (written := [target_pieces[word] for word in words if not DIVIDER.search(target_pieces[word])])
    )
