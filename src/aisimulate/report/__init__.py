"""How results look: terminal tables, lines, launch arguments and result files."""
