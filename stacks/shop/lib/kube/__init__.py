"""The cluster's API for the company's small controllers: plain HTTPS with the pod's own token."""
