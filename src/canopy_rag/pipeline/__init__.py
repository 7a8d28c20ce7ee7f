"""One decision per module: retrieve, compress, read; `loop` runs the rounds, `factory` wires."""
