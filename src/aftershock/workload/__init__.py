"""The users: outside the cluster, at a steady rate, with a ledger of what they were promised."""
