"""The words of a made-up language pair, and the model that the soak scripts train on it."""

WORDS = {
    "der": "the",
    "hund": "dog",
    "läuft": "runs",
    "und": "and",
    "katze": "cat",
    "schläft": "sleeps",
    "gern": "gladly",
    "heute": "today",
}
MODEL = """
[model]
blocks = 3
heads = 2
dropout = 0.1
max_length = 40
encoder = { blocks = 1, dim = 16, ffn_dim = 24 }
decoder = { dim = 16, ffn_dim = 20 }
"""
