"""Programs of peers: each in an environment of its own; it imports neighbours and `shared`."""
