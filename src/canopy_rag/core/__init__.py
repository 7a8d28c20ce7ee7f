"""The algorithm of CANOPY as pure functions over records and arrays: no I/O, clock, chance."""
