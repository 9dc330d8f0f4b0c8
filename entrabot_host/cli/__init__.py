"""The `entrabot` command."""
