"""What every service of the market is built on.

`app` serves HTTP, `worker` runs loops beside the same probes, `settings` reads the configuration,
`db`, `cache`, `queue` and `client` reach the others, `context`, `logs`, `metrics` and `tracing` tell
what happened. A module is imported by who needs it only: a service that starts slowly is one that
cannot be restarted in an emergency.
"""
