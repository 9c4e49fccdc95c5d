"""What goes wrong, and what makes it show: step primitives, each with a proof that it landed.

Everything here acts from outside, as an operator or a client would: API calls under ordinary
names, SQL through `psql` in the database's pod, programs of the machine. Nothing is deployed.
"""
