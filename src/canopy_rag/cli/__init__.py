"""The `canopy` command: one file per command; nothing heavy loads before a command needs it."""

from canopy_rag.cli.main import app, main

__all__ = ["app", "main"]
