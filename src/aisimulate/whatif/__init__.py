"""What a result hangs on: the same replay under one changed assumption at a time."""
