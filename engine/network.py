"""The door to the Rust core: the network of a task, its gates, batches and aggregates.

No other module imports `engine._native`. What is here works on batches; the task loop calls
`Network.receive` and `OutputGate.emit` straight on the native objects. Importing it makes the
record types of `engine.record` known to Rust.
"""

from collections.abc import Sequence

from engine import record
from engine._native import (
    Aggregate,
    AggregateError,
    AvroDecoder,
    Batch,
    Blob,
    BlobNode,
    BlobStatistics,
    Cancelled,
    ChannelLost,
    Control,
    DecodeError,
    Digests,
    EncodeError,
    Finder,
    Fold,
    FrozenDict,
    HttpGateway,
    HttpReplies,
    HttpStream,
    InputStatistics,
    Join,
    JsonDecoder,
    KeptRecords,
    KeptRows,
    KeyedEntries,
    KeyExtractError,
    Landing,
    LatencyHistogram,
    Latest,
    LatestPairs,
    Network,
    NetworkError,
    NetworkStatistics,
    OutputGate,
    OutputStatistics,
    Paired,
    Program,
    ResourceError,
    RollingAggregate,
    TimeFunction,
    Top,
    WindowAggregate,
    WindowFold,
    WindowSpans,
    columns_of_dicts,
    decode_value,
    dicts_of_rows,
    encode_parts,
    ipc_streams,
    is_portable,
    keyed_entries,
    mapped,
    needs,
    partition,
    plain_keys,
    register_extensions,
    take_rows,
    use_precise_timers,
    xxh3,
)
from engine.partitioner import Hash, Partitioner

__all__ = [
    "Aggregate",
    "AggregateError",
    "AvroDecoder",
    "Batch",
    "Blob",
    "BlobNode",
    "BlobStatistics",
    "Cancelled",
    "ChannelLost",
    "Control",
    "DecodeError",
    "Digests",
    "EncodeError",
    "Finder",
    "Fold",
    "FrozenDict",
    "HttpGateway",
    "HttpReplies",
    "HttpStream",
    "InputStatistics",
    "Join",
    "JsonDecoder",
    "KeptRecords",
    "KeptRows",
    "KeyExtractError",
    "KeyedEntries",
    "Landing",
    "LatencyHistogram",
    "Latest",
    "LatestPairs",
    "Network",
    "NetworkError",
    "NetworkStatistics",
    "OutputGate",
    "OutputStatistics",
    "Paired",
    "Program",
    "ResourceError",
    "RollingAggregate",
    "TimeFunction",
    "Top",
    "WindowAggregate",
    "WindowFold",
    "WindowSpans",
    "columns_of_dicts",
    "decode_value",
    "dicts_of_rows",
    "encode_parts",
    "ipc_streams",
    "is_portable",
    "keyed_entries",
    "mapped",
    "needs",
    "open_output_gate",
    "partition",
    "plain_keys",
    "take_rows",
    "use_precise_timers",
    "xxh3",
]


def open_output_gate(
    network: Network, partitioner: Partitioner, channels: Sequence[int], pickle: bool = False
) -> OutputGate:
    """The gate that sends records over these connected channels as the partitioner says.

    With `pickle`, objects that cannot travel otherwise are pickled.
    """
    name = partitioner.name
    if not isinstance(partitioner, Hash):
        return network.output_gate(list(channels), name, pickle=pickle)
    key, columns, rows = partitioner.key, partitioner.columns, partitioner.rows
    return network.output_gate(list(channels), name, key, pickle, columns, rows)


register_extensions(
    record.travel,
    record.find_class,
    record.decode_extension,
    record.plain_key,
    record.canonical_key,
    record.number,
    record.pickle,
)
