"""The simulated serving engine of one worker: scheduling, KV cache and pass timing. No clock, no I/O."""
