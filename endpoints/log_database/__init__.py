"""The log database: connections, round trips, plans, published sandboxes, and whether it is alive."""
