"""Traffic: trace files, synthetic load and inline requests, and the driver that releases them."""
