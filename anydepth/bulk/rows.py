"""What is in a shard: the sentences of its lines or rows, and the same lines or rows with their
translations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anydepth.bulk.inputs import InputKind, Shard, require_parquet
from anydepth.errors import CorpusError, UsageError
from anydepth.files.reading import shown
from anydepth.inference.translator import Translation
from anydepth.text.corpus import decode_line

ERROR = "error"  # of a line that could not be translated, in its JSON object


@dataclass(frozen=True)
class RowFormat:
    """What is written for each sentence: its text, or with `as_json` all of the translation; `field`
    has the sentence of a JSON object or a Parquet row, and `into` gets its translation."""

    as_json: bool = False
    field: str = "text"
    into: str = "translation"

    def __post_init__(self) -> None:
        if self.field == self.into:
            raise UsageError(f"--field and --into are both {self.field}, which would replace the source; choose two")

    def ending(self, kind: InputKind) -> str:
        """The ending of the names of output shards."""
        if kind == "text":
            return ".jsonl" if self.as_json else ".txt"
        return f".{kind}"

    def value(self, translation: Translation | None) -> Any:
        """What stands in the field `into`; nothing for a sentence that could not be translated."""
        if translation is None:
            return None
        return translation.to_json() if self.as_json else translation.text


class Rows(Protocol):
    """The lines or rows of a shard: a sentence for each, or None where there is none; `problems` says
    why, by place in the shard, from 0."""

    problems: dict[int, str]

    @property
    def sources(self) -> Sequence[str | None]: ...

    def written(self, translations: Sequence[Translation | None]) -> bytes:
        """The output shard; what has no translation stands in it without one."""


class TextRows:
    """Lines of text, one sentence each."""

    def __init__(self, shard: Shard, form: RowFormat) -> None:
        self.form, self.problems = form, dict[int, str]()
        self.sources = [_decoded(raw, shard, number, self.problems) for number, raw in enumerate(shard.lines)]

    def written(self, translations: Sequence[Translation | None]) -> bytes:
        """A line for each line, as `anydepth translate` prints it."""
        return b"".join(self._line(number, each) for number, each in enumerate(translations))

    def _line(self, number: int, translation: Translation | None) -> bytes:
        known = translation or Translation()
        if not self.form.as_json:
            return _encoded(known.line)
        error = {} if translation is not None else {ERROR: self.problems.get(number, "")}
        return _encoded(_json(known.to_json() | error))


class JsonRows:
    """Lines that are JSON objects; the text of each object is kept as it is."""

    def __init__(self, shard: Shard, form: RowFormat) -> None:
        self.form, self.problems = form, dict[int, str]()
        self.with_error = set[int]()  # those that have such a field of their own, which they keep
        self.lines = [_decoded(raw, shard, number, self.problems) for number, raw in enumerate(shard.lines)]
        self.sources = [self._sentence(line, number) for number, line in enumerate(self.lines)]

    def _sentence(self, line: str | None, number: int) -> str | None:
        if line is None or not line.strip():
            return None
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.problems[number], self.lines[number] = f"it is not JSON: {shown(str(error))}", None
            return None
        if isinstance(row, dict) and ERROR in row:
            self.with_error.add(number)
        if reason := self._unfit(row):
            self.problems[number] = reason
            self.lines[number] = line if isinstance(row, dict) and self.form.into not in row else None
            return None
        return str(row[self.form.field])

    def _unfit(self, row: object) -> str | None:
        field, into = self.form.field, self.form.into
        if not isinstance(row, Mapping):
            return "it is not a JSON object"
        if into in row:
            return f"it has a field {into} already; name another with --into"
        if not isinstance(row.get(field), str):
            return f"it has no text in the field {field}; name another with --field"
        return None

    def written(self, translations: Sequence[Translation | None]) -> bytes:
        """The objects with one field more; an empty line stays one."""
        return b"".join(self._line(number, each) for number, each in enumerate(translations))

    def _line(self, number: int, translation: Translation | None) -> bytes:
        line, problem = self.lines[number], self.problems.get(number)
        if line is not None and not line.strip():
            return b"\n"
        has_own = line is not None and number in self.with_error
        error = {ERROR: problem} if problem and not has_own else {}
        more = _json({self.form.into: self.form.value(translation)} | error)
        body = (line or "").strip()
        if not (body.startswith("{") and body.endswith("}")) or body[1:-1].strip() == "":
            return _encoded(more)
        return _encoded(f"{body[:-1].rstrip()}, {more[1:]}")


class ParquetRows:
    """Rows of a Parquet file, which get one column more."""

    def __init__(self, shard: Shard, form: RowFormat) -> None:
        pyarrow, _ = require_parquet()
        self.form, self.problems = form, dict[int, str]()
        self.table = pyarrow.ipc.open_stream(shard.lines[0]).read_all()
        check_columns(self.table.schema, form, shard.input)
        self.sources = self.table.column(form.field).to_pylist()

    def written(self, translations: Sequence[Translation | None]) -> bytes:
        """The rows as a Parquet file; a null stays null."""
        pyarrow, parquet = require_parquet()
        values = [self.form.value(each) for each in translations]
        texts = [_json(each) if isinstance(each, dict) else each for each in values]
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(self.table.append_column(self.form.into, pyarrow.array(texts, pyarrow.string())), sink)
        return bytes(sink.getvalue().to_pybytes())


def rows_of(shard: Shard, form: RowFormat) -> Rows:
    """The lines or rows of a shard."""
    match shard.kind:
        case "text":
            return TextRows(shard, form)
        case "jsonl":
            return JsonRows(shard, form)
        case "parquet":
            return ParquetRows(shard, form)


def check_columns(schema: Any, form: RowFormat, name: str) -> None:
    """Refuses Parquet columns that cannot be translated, or would be replaced."""
    pyarrow, _ = require_parquet()
    names = list(schema.names)
    if form.into in names:
        raise UsageError(f"{name} has a column {form.into} already; name another with --into")
    if names.count(form.field) != 1:
        raise UsageError(f"{name} has no column {form.field}, but {', '.join(names)}; name one with --field")
    kind = schema.field(form.field).type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise UsageError(f"the column {form.field} of {name} holds {kind}, not text; name another with --field")


def _decoded(raw: bytes, shard: Shard, number: int, problems: dict[int, str]) -> str | None:
    try:
        return decode_line(raw, shard.input, shard.first + number)
    except CorpusError as error:
        problems[number] = str(error)
        return None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _encoded(line: str) -> bytes:
    """A line of output, as standard output writes it: what is no character is written out."""
    return f"{line}\n".encode("utf-8", errors="backslashreplace")
