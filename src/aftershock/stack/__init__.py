"""The system that breaks: what a stack folder holds, and bringing it up on a cluster."""
