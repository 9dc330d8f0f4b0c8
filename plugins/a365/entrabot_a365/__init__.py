"""Word documents, their comments, and files, through the Agent 365 Work IQ servers."""
