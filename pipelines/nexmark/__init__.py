"""Nexmark: questions to the stream of an auction house, as streams of Oka.

Persons register, put things up for auction and bid. Each query is a function of the tables
(`source.Tables`) that gives a stream, once per record and once over columns: `stateless`,
`windows`, `totals`, `ranking`, `joins`. `queries` lists them and those that are not written.
Events come from the published generator (`events`), or from files that it wrote.

    oka run pipelines/nexmark/run.py query=q5 api=columnar events=1000000
"""
