"""What a notebook offers to the programs of its cells, and what it shows: cells, tables of HTML."""
