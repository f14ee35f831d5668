"""A made-up language pair, translated word by word, and the sizes of a model that learns it."""
