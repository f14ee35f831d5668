"""The grammar and lexicon of the built-in corpus."""
