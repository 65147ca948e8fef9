"""How close simulations are to real servers: what was measured, and how it compares."""
