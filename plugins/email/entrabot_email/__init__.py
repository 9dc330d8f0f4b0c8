"""Email for an agent with a mailbox of its own."""
