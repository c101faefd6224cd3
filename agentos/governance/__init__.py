"""Pure judgements on calls: whether arguments fit a tool's schema, and what rules say of a tool."""
