"""Pydantic models of the replay payload. They live at the edge; the engine never sees them."""
