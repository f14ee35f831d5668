"""The oracle that learns from the BLEU of every exit's translation."""
