"""Watching a replay while it runs: telemetry, forward-pass metrics, timelines and checks."""
