"""One module per table of docs/speed.md and docs/reliability.md: `table()` returns its Markdown."""
