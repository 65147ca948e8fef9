"""How every command ends."""

DONE = 0
NOTHING_FEASIBLE = 1
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
