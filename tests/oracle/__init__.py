"""A slow, obvious, step-by-step replay that the production engine must equal to the nanosecond.

It knows no runs, no jumps and no compression: every pass of every rank is one step, every KV block one
object, every prompt a full list of tokens. It takes the payload of `run_replay_json` and shares no
scheduling code with the package.
"""
