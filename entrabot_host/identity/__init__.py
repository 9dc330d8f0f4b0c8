"""Who the agent is, who sponsors it, and on whose authority it acts."""
