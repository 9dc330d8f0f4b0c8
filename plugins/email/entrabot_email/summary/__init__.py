"""The daily summary: what needs a person, what was handled, what is good to know."""
