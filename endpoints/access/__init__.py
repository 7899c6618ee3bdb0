"""Who may call: access tokens, logins, limits, and what a process knows of endpoints and tokens."""
