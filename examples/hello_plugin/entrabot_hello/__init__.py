"""Entrabot plugin: hello."""
