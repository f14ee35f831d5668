"""Recipes: from the official archives of public corpora to the plain text files of the splits that
the paper uses."""
