"""Promises for Entrabot."""
