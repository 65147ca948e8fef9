"""The documents: their commands and their code work."""
