"""Small archives in the formats of the official ones."""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

IWSLT_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
WMT_CORPORA = {
    "training-parallel-europarl-v7.tgz": "training/europarl-v7.fr-en",
    "training-parallel-commoncrawl.tgz": "commoncrawl.fr-en",
    "training-parallel-un.tgz": "un/undoc.2000.fr-en",
    "training-parallel-nc-v9.tgz": "training/news-commentary-v9.fr-en",
    "training-giga-fren.tar": "giga-fren.release2.fixed",
}


def text(lines: Sequence[str]) -> bytes:
    """Lines as the bytes of a file."""
    return "".join(f"{line}\n" for line in lines).encode()


def pack(path: Path, files: Mapping[str, bytes]) -> Path:
    """A tar archive with `files`, packed unless it is called .tar."""
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, contents in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))
    return path


def xml_set(sentences: Sequence[str]) -> bytes:
    """A test set in the format of IWSLT."""
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<mteval>",
        '<refset setid="x">',
        '<doc docid="1" genre="lectures">',
    ]
    about = [
        "<url>http://x.org</url>",
        "<description>About it.</description>",
        "<talkid>1</talkid>",
        "<title>Title</title>",
    ]
    segments = [f'<seg id="{number}"> {sentence} </seg>' for number, sentence in enumerate(sentences, 1)]
    return text([*head, *about, *segments, "</doc>", "</refset>", "</mteval>"])


def iwslt_files(
    train: Sequence[tuple[str, str]], tests: Mapping[str, Sequence[tuple[str, str]]] | None = None
) -> dict[str, bytes]:
    """The members of de-en.tgz; a test set that is not given has one pair with its own name."""
    tests = {name: [(f"{name} deutsch", f"{name} english")] for name in IWSLT_TESTS} | dict(tests or {})
    files = {"de-en/README": b"terms\n", "de-en/train.en": b"monolingual\n"}
    for side, language in enumerate(("de", "en")):
        files[f"de-en/train.tags.de-en.{language}"] = text([pair[side] for pair in train])
        for name, pairs in tests.items():
            files[f"de-en/IWSLT14.{name}.de-en.{language}.xml"] = xml_set([pair[side] for pair in pairs])
    return files


def wmt_archives(folder: Path, corpora: Sequence[Sequence[tuple[str, str]]], test: Sequence[tuple[str, str]]) -> Path:
    """A folder with the six archives of WMT'14 English-French; `corpora` are in their official
    order."""
    folder.mkdir()
    for (archive, stem), pairs in zip(WMT_CORPORA.items(), corpora, strict=True):
        packed = archive.endswith(".tar")
        files = {}
        for side, language in enumerate(("en", "fr")):
            contents = text([pair[side] for pair in pairs])
            files[f"{stem}.{language}{'.gz' * packed}"] = gzip.compress(contents) if packed else contents
        pack(folder / archive, files | {f"{stem.replace('fr-en', 'cs-en')}.cs": b"other\n"})
    sides = [[f'<seg id="{number}">{pair[side]}</seg>' for number, pair in enumerate(test, 1)] for side in (0, 1)]
    pack(
        folder / "test-full.tgz",
        {
            "test-full/newstest2014-fren-src.en.sgm": text(["<srcset>", *sides[0]]),
            "test-full/newstest2014-fren-ref.fr.sgm": text(["<refset>", *sides[1]]),
        },
    )
    return folder


def lines_of(path: Path) -> list[str]:
    """The lines of a file that a recipe wrote, which must all be ended."""
    *lines, rest = path.read_bytes().decode().split("\n")
    assert rest == ""
    return lines
