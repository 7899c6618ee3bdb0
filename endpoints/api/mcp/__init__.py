"""Endpoints as tools of the Model Context Protocol (MCP), for agents: one address, /mcp, and no state.

A POST is read by `protocol` (JSON-RPC, revisions of the specification), answered by `views`; `tools` describes
endpoints, `tool_calls` runs them by the same services as the query route. https://modelcontextprotocol.io/specification
"""
