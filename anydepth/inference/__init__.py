"""Text in, text out: the Translator, the engines behind it, and exports."""
