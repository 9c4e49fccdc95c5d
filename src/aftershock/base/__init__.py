"""What every layer uses: errors, paths, running programs, waiting, records."""
