"""The persona: a text from the operator's persona server that follows the body in the instructions."""
