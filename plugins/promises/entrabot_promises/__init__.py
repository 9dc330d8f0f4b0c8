"""Commitments that survive restarts."""
