"""Email for Entrabot."""
