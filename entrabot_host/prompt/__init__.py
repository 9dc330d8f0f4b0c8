"""The instructions an agent is given: body, plugin fragments, persona."""
