"""Endpoints as tools of the Model Context Protocol (MCP), for agents: one address, /mcp, and no state."""
