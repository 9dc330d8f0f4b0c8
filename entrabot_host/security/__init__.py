"""Rules about hosts, tokens, outside text and what may be shown."""
