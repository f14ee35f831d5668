"""The built-in corpus, its settings and the walk-through."""
