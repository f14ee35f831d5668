"""Text and tokens: corpora, tokenizers, prepared data and batches."""
