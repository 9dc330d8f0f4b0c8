"""What was done: the audit log and the interaction log."""
