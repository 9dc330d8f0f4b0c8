"""Built-in auth providers."""
