"""Programs of peers: each runs in an environment of its own and imports only its neighbours."""
