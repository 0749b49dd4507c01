"""The page of jobs: a server on this machine that shows histories, and acts on its own job."""
