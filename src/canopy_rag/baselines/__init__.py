"""Methods to compare with, one per file, all with the same interface: `registry` builds them."""
