"""Canopy inside other frameworks: one module each, loaded only where it is imported.

`langchain`, `llamaindex` and `haystack` put refined text in the place of retrieved text; `mcp`
serves an index to agents. Each needs the extra of its name.
"""
