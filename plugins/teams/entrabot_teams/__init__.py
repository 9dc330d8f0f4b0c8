"""Microsoft Teams for Entrabot."""
