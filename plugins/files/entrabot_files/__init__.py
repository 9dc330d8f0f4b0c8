"""Files for Entrabot."""
