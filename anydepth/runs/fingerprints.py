"""What distinguishes weights, texts and word selections from all others, whatever their names."""

import hashlib

from anydepth.files.checksums import known_hash
from anydepth.model.checkpoint import load_tensors
from anydepth.runs.run import Run
from anydepth.text.corpus import side_path
from anydepth.vocabulary.names import FULL, LEARNED, TABLE, parse_vocabulary


def weights_fingerprint(run: Run) -> str:
    """What distinguishes the weights of a run from all others."""
    return known_hash(run.weights_file)


def text_fingerprint(prefix: str, *languages: str) -> str:
    """What distinguishes the text PREFIX from all others, whatever its name."""
    return "-".join(known_hash(side_path(prefix, language))[:16] for language in languages)


def selection_fingerprint(run: Run, vocabulary: str) -> str:
    """What distinguishes the word selection of a vocabulary setting from others that the run had or
    may have under the same name; empty for all words, and where there is none."""
    files = {FULL: None, TABLE: run.table_file, LEARNED: run.learned_words_file}
    file = files[parse_vocabulary(vocabulary).kind]
    if file is None or not file.exists():
        return ""
    tensors, _ = load_tensors(file)  # the file's own bytes differ from one writing to the next: notes have no order
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
