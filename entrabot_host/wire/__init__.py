"""The line transport below the MCP SDK: descriptors, lines, pipes, JSON-RPC lines."""
