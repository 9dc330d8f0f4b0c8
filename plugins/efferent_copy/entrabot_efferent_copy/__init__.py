"""A copy of every tool call for observers."""
