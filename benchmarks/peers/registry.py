"""temporary"""

from benchmarks.peers.peer import Peer

PEERS = (Peer("multiprocessing_pipe", "lists", "per_record", None, "multiprocessing_pipe.py"),)
