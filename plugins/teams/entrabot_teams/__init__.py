"""Microsoft Teams for Entrabot: chats, messages, and hearing what people say."""
