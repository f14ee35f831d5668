"""Translating over HTTP: LibreTranslate's and DeepL's API with a budget for each request, and a page."""
