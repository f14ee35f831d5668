"""Translation models that think only as deep as each word needs."""

__version__ = "0.1.0"
