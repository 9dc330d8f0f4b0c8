"""Stored state: files on this machine."""
