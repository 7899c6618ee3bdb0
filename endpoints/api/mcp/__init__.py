"""Endpoints as tools of the Model Context Protocol (MCP), for agents: one address, /mcp, and no state.

`protocol` reads a message and its revision (https://modelcontextprotocol.io/specification), `views` answers it; `tools`
describes endpoints, and runs them by the same services as the query route.
"""
