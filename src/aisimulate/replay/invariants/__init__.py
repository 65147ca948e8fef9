"""What holds for every replay, by number: see `catalogue`. Checked in tests and behind `--check`."""
