"""Source files to items: one module per family of formats, each imported at its first file."""
