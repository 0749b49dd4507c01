"""Nexmark: queries of an auction house, as streams of Oka.

Persons register, offer items at auctions, and bid. Each query is a function of the tables
(`source.Tables`) that returns a stream, in one version per record and one over columns:
`stateless`, `windows`, `totals`, `ranking`, `joins`. `queries` lists them.
Events come from the published generator (`events`), or from files that it wrote.

    oka run pipelines/nexmark/run.py query=q5 api=columnar events=1000000
"""
