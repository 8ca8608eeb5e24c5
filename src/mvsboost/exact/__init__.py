"""Numbers that come out the same everywhere: fixed point, random bits, exp and log, dtypes."""
