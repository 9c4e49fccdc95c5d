"""External parties: who a shop depends on and does not run. Real small servers in the world outside the cluster.

Each keeps a ledger of its own, as the other side of every promise, and can be told to behave as such
parties do on bad days: slow, refusing, gone after having done the work.
"""
