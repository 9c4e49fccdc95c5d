"""Where an incident runs: an embedded cluster (`box`) or an existing one (`existing`)."""
