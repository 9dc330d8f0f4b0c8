"""The host's own tools and auth providers, which come in through the same hooks as everybody's."""
