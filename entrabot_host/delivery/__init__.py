"""How people's messages reach one session of the agent."""
