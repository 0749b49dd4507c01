from typing import Any, SupportsFloat, SupportsIndex, final
from typing_extensions import disjoint_base

__all__ = ["Aggregate", "AggregateError", "AvroDecoder", "Batch", "Blob", "BlobNode", "BlobStatistics", "Cancelled", "ChannelLost", "Control", "DecodeError", "Digests", "EncodeError", "Finder", "Fold", "FrozenDict", "HttpGateway", "HttpReplies", "HttpStream", "InputStatistics", "Join", "JsonDecoder", "KeptRecords", "KeptRows", "KeyExtractError", "KeyedEntries", "Landing", "LatencyHistogram", "Latest", "LatestPairs", "Network", "NetworkError", "NetworkStatistics", "OutputGate", "OutputStatistics", "Paired", "Program", "ResourceError", "RollingAggregate", "S3Client", "StorageFailed", "TimeFunction", "Top", "WindowAggregate", "WindowFold", "WindowSpans", "columns_of_dicts", "decode_value", "dicts_of_rows", "encode_parts", "ipc_streams", "is_portable", "keyed_entries", "mapped", "needs", "partition", "plain_keys", "register_extensions", "take_rows", "use_precise_timers", "xxh3"]

@final
class Aggregate:
    """
    Count, sum and others per key, or several of them, computed on encoded records.

    `key` has a path from a record to its key, or several to the items of a tuple that is the key. Without one, all
    records have one key, and a result is a value alone.
    `wanted` has tuples of the name of an aggregation and the path to the value; then the parameters, such as
    the shares of quantiles, or how many values are wanted; then the path to the second value of pairs, or
    None; and None, or the path to the bool that says whether a record counts, in a pair with None, or the path to
    what a function says it of, in a pair with that. A path goes
    item by item (int) and field by field (str), and is empty for the record itself; over columns it
    is one step, the column's name or index. With `names`, one for each of `wanted`, the value of a
    key is a dict, or a column of that name for each; without, there is one value.

    Where snapshots will be taken, `copies_keys` has new keys copied behind each batch, and not when one is.
    With `rescue`, a record that fails changes nothing: `rescue(record, error)` is called with it, and the
    next ones follow. Of columns, rows do not fail one by one.

    Results are those of the same loop in Python. One thread at a time.
    """
    def __len__(self, /) -> int:
        """
        Number of different keys so far.
        """
    def __new__(cls, /, key: "list[list[int | str]]", wanted: "list[tuple[Any, ...]]", names: "list[str] | None" = None, *, copies_keys: "bool" = False, rescue: "Any" = None) -> Aggregate: ...
    def add(self, /, batch: "Batch") -> "None":
        """
        Takes a batch in without a result. Raises AggregateError naming the record.
        """
    def clear(self, /) -> "None":
        """
        Forgets all records so far, where no snapshots are taken.
        """
    def count(self, /, records: "int") -> "bool":
        """
        Takes in so many records, or rows of the last columns, of which nothing is read. False, and nothing is taken
        in, if anything but the number of all is wanted.
        """
    def merge(self, /, layout: "bytes", value: "bytes") -> "None":
        """
        Takes in the `part` of another, behind what is here. Raises AggregateError where it does not suit.
        """
    def part(self, /) -> "tuple[bytes, bytes] | None":
        """
        Without a key, what all records so far have come to, for `merge` of another: of columns an empty frame
        of them (else no bytes), and the value as in `snapshot`. None if there were no records.
        """
    def restore(self, /, layout: "bytes", entries: "KeyedEntries", touched: "bool") -> "None":
        """
        Goes on with what others kept, before the first batch. `touched` tells that `updates` shall
        give these keys. Raises AggregateError where it does not suit.
        """
    def snapshot(self, /) -> "tuple[bytes, KeyedEntries]":
        """
        What it keeps, for `restore`: of columns an empty frame of them (else no bytes), and an entry
        of keyed state for each key. A value is that of the only aggregation, or a tuple; a mean is a
        tuple of sum and count.
        """
    def take(self, /) -> "Any":
        """
        What `update` gives, of the keys that were touched since it was called.
        """
    def update(self, /, batch: "Batch") -> "Any":
        """
        Takes a batch in. The keys it touched, in the order in which it touched them, each once with
        its value after the whole batch: a list of pairs, or, of columns, a pyarrow.RecordBatch of
        those of the key and of the values (an empty list if it touched none). Raises AggregateError
        naming the record.
        """
    def updates(self, /, first: "int", most: "int") -> "Any":
        """
        What `update` gives, of the keys that it did not give since they were touched: at most `most`
        of them from the one numbered `first` on. An empty list if there are no more.
        """

@disjoint_base
class AggregateError(Exception):
    """
    A record does not suit the aggregate: its key or value is missing or of the wrong kind.
    """
    def __new__(cls, /, message: "str") -> AggregateError: ...

@final
class AvroDecoder:
    """
    Makes rows of messages that are a record of Avro each. Without `fetch`, all were written by this schema. With
    it, a zero and four bytes of an id are in front of each; `fetch` is called with an id once, and gives the
    writer's schema. If it raises DecodeError, messages with that id are rejected. Raises ValueError for a schema
    that is none.
    """
    def __new__(cls, /, schema: "str | None", fetch: "Any" = None) -> AvroDecoder: ...
    def decode(self, /, messages: "list[bytes | None]") -> "tuple[list[Any], list[tuple[int, str]]]":
        """
        Batches of a row for each message that is not rejected, and the places of the others with a reason. There
        is one batch, unless messages of several schemas came without a schema to read them by.
        """

@final
class Batch:
    """
    Records as they travelled: encoded, in order, decoded only on demand. They are Python objects, or
    the rows of columns.

    `len(batch)` is the number of records. A batch from a network is released by the next `receive`,
    because its memory belongs to the channel; its records then raise ValueError.
    """
    def __len__(self, /) -> int: ...
    def __reduce__(self, /) -> "tuple[Any, ...]":
        """
        Pickles records as they are encoded. Raises ValueError for columns and released batches.
        """
    def __repr__(self, /) -> str: ...
    def apart(self, /) -> "list[Batch]":
        """
        Each record as a batch of its own, by which those are found that cannot be decoded. Raises
        DecodeError where it cannot be told where they end, ValueError for columns and released
        batches.
        """
    @property
    def channel(self, /) -> int:
        """
        Id of the channel that it came from; where small batches of several came together, of the
        first of them. 0 for a batch that no channel delivered.
        """
    def decode(self, /) -> "Any":
        """
        What was emitted, anew with every call: a list of records, or a pyarrow.RecordBatch with
        memory of its own. Raises DecodeError, ValueError after the batch was released.
        """
    def each(self, /, first: "int", step: "int") -> "list[Any]":
        """
        The record in the place `first` and each `step`-th behind it, as `to_list` gives them. Raises DecodeError, ValueError
        for columns and released batches.
        """
    @staticmethod
    def from_bytes(data: bytes, records: SupportsIndex) -> Batch:
        """
        A batch of `records` encoded records; decoding it tells whether they are.
        """
    @staticmethod
    def from_columns(columns: "Any") -> "Batch":
        """
        A batch of the rows of a pyarrow.RecordBatch, which are not copied.
        """
    @staticmethod
    def from_frames(frames: "list[tuple[int, bytes]]") -> Batch:
        """
        A batch of encoded records, given as numbers of records and their bytes.
        """
    @staticmethod
    def from_list(records: "list[Any]", pickle: "bool" = False) -> Batch:
        """
        Encodes a list; the batch that a channel would deliver for it. With `pickle`, what cannot
        travel otherwise is pickled. Raises EncodeError.
        """
    @property
    def has_columns(self, /) -> bool:
        """
        Whether its records are rows of columns; False after the batch was released.
        """
    @property
    def input(self, /) -> int:
        """
        Number of the input, in the order of `connect`, that all its records came from.
        """
    @input.setter
    def input(self, /, input: int) -> None: ...
    @property
    def markers(self, /) -> list[int]:
        """
        Stamps (nanoseconds) of the markers that travelled behind the records.
        """
    @staticmethod
    def of_rows(columns: "Any") -> "Batch":
        """
        The batch that a channel would deliver for the dicts of a pyarrow.RecordBatch's rows, whose columns have
        different names. Raises EncodeError.
        """
    @property
    def size(self, /) -> int:
        """
        Bytes of the encoded records; 0 after the batch was released.
        """
    def to_list(self, /) -> "list[Any]":
        """
        The records as Python objects, anew with every call; of columns, a dict for each row. Raises
        DecodeError, ValueError after the batch was released, or for a row that cannot be a dict.
        """

@final
class Blob:
    """
    A blob that is whole: its bytes, read-only and without a copy, through the buffer protocol. Its
    memory is freed with the last one on the node.
    """
    def __buffer__(self, flags: "int", /) -> "memoryview":
        """
        What memoryview(blob) is, here for type checkers.
        """
    def __len__(self, /) -> int:
        """
        Bytes.
        """
    @property
    def landed_ns(self, /) -> int:
        """
        When it was whole on this node, in nanoseconds of CLOCK_MONOTONIC.
        """

@final
class BlobNode:
    """
    Large values of one worker: one sealed copy per node, relayed from node to node.

    Thread-safe: any thread may call any method while others wait. Its own threads never need the GIL.
    """
    def __new__(cls, /, listen: "str", local: "str", *, encryption: "bool | None" = None, chunk_bytes: "int | None" = None, reconnect_timeout_seconds: "float | None" = None, bypass_seconds: "float | None" = None) -> BlobNode:
        """
        Listens for other nodes at `listen` (tcp://host:port, port 0 picks one) and for processes of
        this machine at the path `local`. Raises ValueError for an invalid endpoint or setting,
        NetworkError when the system refuses it. A setting that is None is the usual one.

        `encryption`: connections between nodes are encrypted and both ends authenticated.
        `chunk_bytes`: what a node has to have before it relays it, and what is sent again after an
        error. `reconnect_timeout_seconds`: how long a blob that nobody sends is waited for, and a node
        that was bypassed is tried again. `bypass_seconds`: how long a node may be out of reach until
        it is bypassed.
        """
    def cancel(self, /) -> None:
        """
        Makes every call that waits, now or later, raise Cancelled.
        """
    def close(self, /) -> None:
        """
        Stops all threads and removes the local socket; blobs that were got stay. Idempotent.
        """
    def connect(self, /, chain: "list[str]", peers: "list[str]", leaders: "list[tuple[int, str]]", followers: "int", timeout_seconds: "float") -> None:
        """
        Tells the node its peers, once, and waits for those on this machine. Raises NetworkError when
        they do not come in time, ValueError for an invalid endpoint, Cancelled.

        `chain`: endpoints that blobs from here are relayed to, in order. `peers`: endpoints that may
        send to it. `leaders`: (origin, path) of the nodes of this machine that hand over the blobs of
        these origins. `followers`: how many nodes of this machine are handed blobs from here.
        """
    def create(self, /, origin: "int", number: "int", size: "int", relay: "bool", consume: "bool") -> Landing:
        """
        Memory for a blob that begins here. `relay`: it is sent along the chain. `consume`: this worker
        will get it, too. Raises ResourceError if there is no memory for it, ValueError for a number
        that was used before, Cancelled.
        """
    @property
    def endpoint(self, /) -> str:
        """
        Where other nodes reach this one: tcp://KEY@host:port, the key only with encryption.
        """
    def expect(self, /, origin: "int", number: "int") -> None:
        """
        Says that this worker will get a blob. Not needed: every blob that arrives is kept until then.
        """
    def get(self, /, origin: "int", number: "int", timeout_seconds: "float | None" = None) -> Blob:
        """
        The blob, once it is whole here; each one once. Waits without the GIL. Raises ChannelLost when
        it will not come, TimeoutError, Cancelled.
        """
    def statistics(self, /) -> BlobStatistics:
        """
        A snapshot of the counters.
        """
    def unlink(self, /) -> None:
        """
        Removes the name of the local socket: after every node of this machine has connected.
        """
    def wait_delivered(self, /, origin: "int", number: "int", timeout_seconds: "float | None" = None) -> None:
        """
        Waits until a blob that began here is with every node of the chain and every follower here.
        Raises ChannelLost naming the endpoints that have not got it, TimeoutError, Cancelled.
        """

@final
class BlobStatistics:
    """
    The counters of one blob node. `held_bytes` and `blobs` are those of the moment, the others only
    grow.
    """
    @property
    def blobs(self, /) -> int:
        """
        Blobs that someone here still needs.
        """
    @property
    def bytes_received(self, /) -> int:
        """
        Bytes of chunks that came from other nodes.
        """
    @property
    def bytes_sent(self, /) -> int:
        """
        Bytes of chunks that were sent to other nodes.
        """
    @property
    def chunks_resent(self, /) -> int:
        """
        Chunks that were sent again: after a loss, or because a bit was flipped.
        """
    @property
    def held_bytes(self, /) -> int:
        """
        Bytes of memory of the blobs that this node made, until the last one lets go.
        """
    @property
    def nodes_bypassed(self, /) -> int:
        """
        Nodes of a chain that could not be reached, and were bypassed.
        """
    @property
    def refused_connections(self, /) -> int:
        """
        Connections that were turned away: no key or a wrong one, or another protocol.
        """

@disjoint_base
class Cancelled(Exception):
    """
    The network was cancelled while, or before, the call waited.
    """
    def __new__(cls, /, message: "str") -> Cancelled: ...

@disjoint_base
class ChannelLost(Exception):
    """
    A connection between two tasks broke, or a frame on it was missing.
    """
    def __new__(cls, /, message: "str") -> ChannelLost: ...

@final
class Control:
    """
    A watermark, idleness or a barrier, in its place between the records of a stream.
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    @staticmethod
    def barrier(epoch: SupportsIndex) -> Control:
        """
        What is before it belongs to the checkpoint of this epoch, from 1; what follows does not.
        """
    @property
    def epoch(self, /) -> int | None:
        """
        The epoch of a barrier; None of anything else.
        """
    @staticmethod
    def idle() -> Control:
        """
        Nothing is told about time until the next watermark or record.
        """
    @property
    def time_us(self, /) -> int | None:
        """
        The time of a watermark; None of anything else.
        """
    @staticmethod
    def watermark(time_us: SupportsIndex) -> Control:
        """
        All records that follow are later than this, in microseconds of event time.
        """

@disjoint_base
class DecodeError(ValueError):
    """
    Received bytes are no records: the sender runs another version, or they are not from a task.
    """
    def __new__(cls, /, message: "str") -> DecodeError: ...

@final
class Digests:
    """
    What entries of keyed state were at one time: 20 bytes for each.
    """
    @property
    def oldest(self, /) -> int | None:
        """
        Since when there has been the key that has been there longest; None if there is none.
        """

@disjoint_base
class EncodeError(TypeError):
    """
    A record holds something that cannot travel between tasks.
    """
    def __new__(cls, /, message: "str") -> EncodeError: ...

@final
class Finder:
    """
    Finds the keys of records, as a gate does: an item of a tuple or list, the value of a dict or the
    field of an object, or a tuple of several.
    """
    def __getnewargs__(self, /) -> tuple[object]: ...
    def __new__(cls, /, key: "int | str | tuple[int | str, ...]") -> Finder: ...
    def find(self, /, record: "Any") -> "Any":
        """
        The key of a record. Raises KeyError or IndexError where it has no such item, else TypeError.
        """

@final
class Fold:
    """
    What a function of two records makes of those of each key: the first one is the value of its key, and each later
    one changes it to what the function gives for both.

    `key` says where in a record the key is: None (the record itself), an item, a field, or a tuple of these. `paired`: a
    record comes behind its key, as a pair. `key_forms` are functions that make a new key comparable; the next one is
    called where comparing raises TypeError. With `rescue`, a record on which the function fails changes nothing:
    `rescue(record, error)` is called.

    `lifted` is the data of the function's `Expression`, if it has one: `run` computes encoded batches by that. Raises
    ValueError for an operation that is not known here. `only_last` allows `run` to leave results out behind which the
    batch has another of the same key, where the first item of all of them is the key. One thread at a time.
    """
    def __len__(self, /) -> int:
        """
        The number of keys.
        """
    def __new__(cls, /, function: "Any", key: "int | str | tuple[int | str, ...] | None", *, paired: "bool", key_forms: "list[Any]", rescue: "Any" = None, lifted: "Any" = None, only_last: "bool" = False) -> Fold: ...
    def entries(self, /, pickle: "bool") -> "KeyedEntries | None":
        """
        Those that are encoded, if there are any. `pickle` is that of `keyed_entries`, for the keys.
        """
    @property
    def failed(self, /) -> tuple[Any] | None:
        """
        The record, or the pair, on which `update` raised last, in a tuple.
        """
    def objects(self, /) -> "dict[Any, Any]":
        """
        The values that are Python objects, by their keys.
        """
    def restore(self, /, entries: "KeyedEntries") -> "None":
        """
        Goes on with what others kept, before the first batch. Raises DecodeError.
        """
    def run(self, /, batch: "Batch") -> "Batch | str":
        """
        The same, encoded, of an encoded batch, without Python objects; or why that is given up, and `update` is to be
        called with the whole batch.
        """
    def update(self, /, records: "list[Any]") -> "list[Any]":
        """
        Takes in records by the function; the value of the key of each, behind that record.
        """
    def values(self, /, first: "int", most: "int") -> "list[Any]":
        """
        At most so many values, from that of the key on that came as this one; an empty list if there are no more.
        """

@final
class FrozenDict:
    """
    A copy of a dict that is as the dict was, whatever becomes of its values: those that are no numbers,
    texts, bytes, None or tuples of such have been encoded, and take part in what is encoded later.
    """
    def items(self, /) -> "Any":
        """
        Its keys and values; in place of values that have been encoded, what stands for them.
        """
    @staticmethod
    def of(values: "dict[Any, Any]", pickle: "bool" = False) -> "FrozenDict | None":
        """
        Of this dict; None where a key can change. Raises EncodeError naming key and value; `pickle` is
        that of `keyed_entries`.
        """

@final
class HttpGateway:
    """
    An HTTP server whose requests wait for who takes them in batches and answers them.

    It has a thread of its own and runs until `close`, or until it is dropped. Every call that waits
    does so without the GIL.
    """
    def __new__(cls, /, gateway: "int", host: "str", port: "int", path: "str", *, token: "str | None", max_in_flight: "int", max_body_bytes: "int", max_in_flight_bytes: "int", max_connections: "int", timeout_seconds: "float", client_seconds: "float", tasks: "int", shares_port: "bool", certificate: "tuple[str, str] | None", replies: "str | None") -> HttpGateway:
        """
        Listens. Raises OSError where the port or `replies` cannot be had.

        `gateway`: its number in the job. `port`: 0 picks one. `token`: what clients have to show.
        `timeout_seconds`: how long a request may wait for its answer; `client_seconds`: how long a
        client may take for what it has to do next. `max_in_flight_bytes`: of requests under way and of
        answers that are not read. `tasks`: how many tell that they work before the gateway is ready. `shares_port`: whether other gateways listen
        on the port, too. `certificate`: files in PEM of the certificate with its chain, and of its
        key; connections are then encrypted. `replies`: where a socket is made for replies of other processes.
        """
    @property
    def address(self, /) -> str:
        """
        Where it listens: "127.0.0.1:8000".
        """
    def admit(self, /, keys: "list[bytes]") -> None:
        """
        From now on those with these keys may answer; once.
        """
    def close(self, /) -> None:
        """
        Ends requests under way with 503, and `take`; idempotent.
        """
    def codes(self, /) -> dict[int, int]:
        """
        How many answers there were of each status, without those to probes.
        """
    def counts(self, /) -> tuple[int, int, int, int]:
        """
        How many requests were answered, had expired, whose client had gone, and were refused.
        """
    def drain(self, /) -> None:
        """
        Refuses requests from now on, those that nobody has taken, too; `take` ends with the others.
        """
    @property
    def in_flight(self, /) -> int:
        """
        Requests under way.
        """
    def listen(self, /, endpoint: str, encryption: bool) -> str:
        """
        Takes replies of other hosts in at `tcp://host:port`; returns what they have to be told.

        With encryption only of those that `admit` names. Raises OSError where the port is taken.
        """
    def reply(self, /, replies: "list[Any]") -> None:
        """
        Answers requests that have not ended otherwise, with what has `id`, `status`, `head`, `body`.
        """
    def share_with(self, /, replies: "list[str]") -> None:
        """
        The gateways that listen on its port, too, by their `replies`; said once.
        """
    def take(self, /, limit: "int", timeout_seconds: "float", linger_seconds: "float", make: "Any") -> "list[Any] | None":
        """
        Up to `limit` requests, each made by `make(id, method, target, head, body, deadline)`.

        Waits for the first for `timeout_seconds`, then for more for `linger_seconds`. `head` is the
        headers' lines in bytes, `deadline` in seconds since 1970. `None` when there will be no more.
        """

@final
class HttpReplies:
    """
    Sends replies to gateways of other processes, on this host or others.
    """
    def __new__(cls, /, encryption: bool) -> HttpReplies:
        """
        To none yet; `encryption` of what goes to other hosts.
        """
    def abandoned(self, /) -> int:
        """
        How many requests of gateways of this host have ended without an answer; wraps around.
        """
    def connect(self, /, gateway: SupportsIndex, endpoint: str, timeout_seconds: SupportsFloat | SupportsIndex) -> None:
        """
        Connects to the gateway of that number: where its `replies` is, or what its `listen` returned.

        Raises OSError where it is not there, or does not answer in time.
        """
    def is_abandoned(self, /, id: SupportsIndex) -> bool | None:
        """
        Whether a request has ended without an answer; None of gateways of other hosts.
        """
    @property
    def key(self, /) -> bytes:
        """
        What gateways of other hosts have to admit; empty without encryption.
        """
    def reaches(self, /, id: SupportsIndex) -> bool:
        """
        Whether it has connected to the gateway of this request.
        """
    def reply(self, /, replies: "list[Any]") -> None:
        """
        As `HttpGateway.reply`. Raises OSError where the gateway is gone.
        """
    def stream(self, /, id: "int", status: "int", head: "bytes") -> HttpStream:
        """
        Begins an answer that goes piece by piece, on a connection of its own.
        """
    def tell_work(self, /) -> None:
        """
        Tells all gateways that the task works. Raises OSError where one is gone.
        """

@final
class HttpStream:
    """
    An answer that goes piece by piece.
    """
    def finish(self, /) -> None:
        """
        That was all. Dropped without it, the client sees that the answer is broken off.
        """
    def write(self, /, piece: "bytes") -> None:
        """
        Sends a piece; waits while the client reads more slowly. Raises OSError when it is gone.
        """

@final
class InputStatistics:
    """
    The counters of one input channel.
    """
    @property
    def backlog_bytes(self, /) -> int:
        """
        Bytes that arrived and were not consumed yet.
        """
    @property
    def bytes(self, /) -> int:
        """
        Bytes of records that arrived.
        """
    @property
    def channel(self, /) -> int:
        """
        Id of the channel.
        """
    @property
    def frames(self, /) -> int:
        """
        Data frames that arrived.
        """
    @property
    def records(self, /) -> int:
        """
        Records that arrived.
        """

@final
class Join:
    """
    Which rows of two streams are partners, which come without one, and which are late or gone.

    A row is a side, the number of its key and a time in microseconds. It gets a number, under which
    the caller keeps the rest; 0 is no row. Numbers of keys and times go in as a list or an array of
    64 bits each; numbers of rows come out as bytes, 32 bits each. It is an interval join with `between`,
    its bounds; a window join with `windows`, their size, slide and offset, or with the `gap` of
    sessions; with `unbounded` one without a bound in time, of how long rows are kept (None is for ever)
    and "pairs", "semi" or "anti"; else a temporal one. All of these are in microseconds. `aside` tells of
    which sides an unbounded one gives, in `close`, rows that had no partner. One thread at a time.
    """
    def __len__(self, /) -> int:
        """
        How many rows are kept.
        """
    def __new__(cls, /, outer: "tuple[bool, bool]", between: "tuple[int, int] | None" = None, windows: "tuple[int, int, int] | None" = None, gap: "int | None" = None, unbounded: "tuple[int | None, str] | None" = None, aside: "tuple[bool, bool] | None" = None) -> Join: ...
    def add(self, /, side: "int", keys: "Any", times: "Any") -> "list[bytes]":
        """
        Takes the rows of a batch in. Gives the places in it of the late ones; the numbers of all, 0
        of the late ones; the left and the right row of each pair, 0 for a missing one; of an unbounded
        join the kind of each, a byte: 0 to 3 as in `change`; and the rows of the left and of the right
        that are gone then.
        """
    def change(self, /, side: "int", keys: "Any", times: "Any", kinds: "bytes", identities: "Any") -> "list[bytes]":
        """
        As `add`, of rows that come and go: `kinds` has a byte for each, 0 of an insert, 1 and 2 of the
        row before and after an update, 3 of a delete. Only equal rows of a side have the same of
        `identities`. Late are also those that are to go and are not there.
        """
    def close(self, /, watermark: "int", most: "int") -> "list[bytes]":
        """
        Says that all rows that follow are later than this, but for late ones. Gives the same as
        `add`. If these are `most` pairs or more, it has to be called again before anything else.
        """
    def identities(self, /, side: "int") -> "list[int]":
        """
        The identities of the rows that are kept of a side, where rows go.
        """
    def kept(self, /, side: "int") -> "list[bytes]":
        """
        What is kept of a side, those of a key behind each other, in the order of time: the numbers of
        their keys, their times, their numbers, and whether they have had partners, a byte each.
        """
    def keys(self, /) -> list[int]:
        """
        The numbers of all keys of which rows are kept.
        """
    def restore(self, /, side: "int", keys: "Any", times: "Any", are_joined: "list[bool]", watermark: "int | None", identities: "Any" = None) -> "bytes":
        """
        Goes on with rows that were kept, those of a key behind each other; `watermark` was that of
        all, and rows that may go have their `identities`. Gives their numbers.
        """

@final
class JsonDecoder:
    """
    Makes rows of messages that are a JSON object each, by a schema: anything with `__arrow_c_schema__`.
    Raises ValueError for types that JSON has no values of.
    """
    def __new__(cls, /, schema: "Any") -> JsonDecoder: ...
    def decode(self, /, messages: "list[bytes | None]") -> "tuple[Any, list[tuple[int, str]]]":
        """
        A pyarrow.RecordBatch of a row for each message that is not rejected, and the places of the others with
        a reason. None is a row of nulls.
        """

@final
class KeptRecords:
    """
    Records of the left and of the right of a `Join`, encoded, under the numbers that it has given them.

    Of each side: where the key of a record is, as for `Fold`; whether records come behind their keys, as pairs; the
    path to the time, as for `WindowAggregate`, and what reads times that are no numbers there. Without a path records
    have no times. One thread at a time.
    """
    def __new__(cls, /, left: "tuple[Any, ...]", right: "tuple[Any, ...]") -> KeptRecords: ...
    @property
    def key_count(self, /) -> int:
        """
        How many keys have a number.
        """
    def forget_other_keys(self, /, numbers: "set[int]") -> None:
        """
        Forgets all keys but those with these numbers, which they keep.
        """
    def keep(self, /, side: "int", batch: "Batch", numbers: "bytes", alone: "bool" = False) -> None:
        """
        Keeps the records of a batch under these numbers, 32 bits each; not those of number 0. Pairs of a key and a
        record come where that is said of the side, unless they are `alone`.
        """
    def keys(self, /) -> "dict[int, Any]":
        """
        All keys by their numbers.
        """
    def number(self, /, key: "Batch") -> "int":
        """
        The number of the key that a batch consists of. Raises ValueError if it cannot be told from others here.
        """
    def pairs(self, /, lefts: "bytes", rights: "bytes") -> "Batch":
        """
        The pairs of these records of the left and of the right, encoded; None for number 0.
        """
    def read(self, /, side: "int", batch: "Batch") -> "tuple[bytes, bytes] | str":
        """
        The numbers of the keys of a batch, and the times in microseconds, 64 bits each; none where records have no
        times. Or why they cannot be read here: nothing has happened then.
        """
    def remove(self, /, side: "int", numbers: "bytes") -> None:
        """
        Lets go of the records of a side with these numbers.
        """
    def take(self, /, side: "int", numbers: "bytes") -> "list[Any]":
        """
        The records of a side with these numbers.
        """

@final
class KeptRows:
    """
    Rows of columns, by the numbers that a `Join` has given them. One thread at a time.
    """
    def __new__(cls, /) -> KeptRows: ...
    def add(self, /, batch: "Any", numbers: "bytes") -> None:
        """
        Takes in the rows of a pyarrow.RecordBatch; those of number 0 are not kept.
        """
    def convert(self, /, function: "Any") -> None:
        """
        Puts what this function makes of each batch in its place: the same rows in another schema.
        """
    def copy(self, /) -> KeptRows:
        """
        The rows as they are now.
        """
    def remove(self, /, numbers: "bytes") -> None:
        """
        Lets go of the rows with these numbers.
        """
    def take(self, /, numbers: "bytes") -> "Any":
        """
        A pyarrow.RecordBatch of the rows with these numbers, of which there is one at least.
        """

@disjoint_base
class KeyExtractError(Exception):
    """
    A record has no such key, or its key is nothing that a record can be keyed by.
    """
    def __new__(cls, /, message: "str") -> KeyExtractError: ...

@final
class KeyedEntries:
    """
    Keys of keyed state with what is kept of them, in the order of hashes: the hash by which a
    hash-partitioned gate chooses, the key and the value, encoded as records are. Nothing in it changes.

    Those that an operator gives are encoded and put in order when somebody first reads them, or asks how
    many they are, in whose thread, without the GIL.
    """
    def __eq__(self, other: object, /) -> bool: ...
    def __getitem__(self, index: SupportsIndex, /) -> tuple[int, bytes, bytes]:
        """
        Raises IndexError, which ends an iteration.
        """
    def __len__(self, /) -> int: ...
    def __new__(cls, /, entries: "list[tuple[int, bytes, bytes]]" = ...) -> KeyedEntries:
        """
        Of these, which are in any order.
        """
    def changes(self, /, before: "Digests", now: "Digests", most: "int") -> "tuple[KeyedEntries, bytes] | None":
        """
        The changes from the entries of `before` to these, whose digests are `now`: all entries of each
        hash with a new or changed entry, and the hashes without entries left, as little-endian numbers.
        None if the changes take more than `most` bytes.
        """
    def digests(self, /, before: "Digests | None" = None, now: "int" = 0) -> "Digests":
        """
        What they are at the time `now`, in seconds of any clock, for `changes` of a later time. `before` is
        what they were the last time.
        """
    @staticmethod
    def from_bytes(data: "bytes | memoryview", length: "int") -> "KeyedEntries":
        """
        So many, of which `to_parts` gave this, which is not copied. Raises DecodeError.
        """
    def keys(self, /) -> "list[Any]":
        """
        The keys, decoded.
        """
    @staticmethod
    def later(pairs: "Any", pickle: "bool" = False) -> "KeyedEntries":
        """
        Of the pairs of a key and a value that `pairs` gives when it is called, as they are now: by who reads
        them first, while others have the GIL now and then. What cannot be encoded is refused then; `pickle`
        is that of `keyed_entries`.
        """
    def needs(self, /) -> "tuple[list[int], list[bytes]]":
        """
        What a decoder needs for them: see `needs`. Raises DecodeError.
        """
    def reordered(self, /, order: "list[int]", in_windows: "bool") -> "KeyedEntries":
        """
        With the values of each key in other places: that at `order[0]` first. `in_windows` tells that they are
        of windows. Raises AggregateError where there are not so many.
        """
    @staticmethod
    def share(states: "list[KeyedEntries]", index: "int", parallelism: "int") -> "KeyedEntries":
        """
        What the task of this index goes on with, out of those of all tasks so far.
        """
    def to_parts(self, /) -> "list[memoryview]":
        """
        As messages of an Arrow IPC stream, of the columns `hash`, `key` and `value`, in parts one behind the
        other, of which large ones are not copied.
        """
    def values(self, /) -> "list[Any]":
        """
        What is kept of each of them, decoded.
        """
    def with_changes(self, /, changes: "list[tuple[KeyedEntries, bytes]]") -> "KeyedEntries":
        """
        What they are after these `changes`, the oldest first. Raises DecodeError.
        """

@final
class Landing:
    """
    A blob that is being filled where it begins; nodes along the chain follow behind what is filled.

    Filled in order by `write` and `write_file`, or in any order through `view` and counted by
    `advance`. Aborted if it is dropped before `finish`.
    """
    def abort(self, /, reason: "str") -> None:
        """
        Gives the blob up; everyone who waits for it gets the reason.
        """
    def advance(self, /, count: "int") -> None:
        """
        The next `count` bytes were filled through the view, and change no more. Raises ValueError if
        they are too many, Cancelled.
        """
    def finish(self, /) -> None:
        """
        Seals the blob: it is whole. Raises ValueError unless exactly its size was written.
        """
    def view(self, /) -> memoryview:
        """
        All bytes, writable: for a fill in any order. What is written after `finish` changes nothing
        but this view. Raises ResourceError.
        """
    def write(self, /, data: "Any") -> None:
        """
        Appends the bytes of a contiguous buffer, without the GIL. Raises ValueError if they are too
        many, ResourceError, Cancelled.
        """
    def write_file(self, /, path: "str", offset: "int" = 0, length: "int | None" = None) -> None:
        """
        Appends `length` bytes of a file from `offset` on, or all that are left, without the GIL.
        Raises OSError if it cannot be read, ValueError if they are too many, ResourceError, Cancelled.
        """

@final
class LatencyHistogram:
    """
    Latencies with 3 significant digits: nanoseconds in, microseconds out. Thread-safe.
    """
    def __new__(cls, /) -> LatencyHistogram: ...
    @property
    def count(self, /) -> int:
        """
        Number of recorded latencies.
        """
    def counts_between(self, /, bounds_ns: "list[int]") -> list[int]:
        """
        How many latencies are at most each bound and above the one before it, then those above the
        last. Bounds are in nanoseconds and rise. One within 0.1 % of a bound may count on either side.
        """
    @staticmethod
    def from_bytes(data: bytes) -> LatencyHistogram:
        """
        Reads what `to_bytes` wrote. Raises ValueError.
        """
    @property
    def max(self, /) -> float:
        """
        Largest latency in microseconds; 0 when empty.
        """
    @property
    def mean(self, /) -> float:
        """
        Mean in microseconds; 0 when empty.
        """
    def merge(self, /, data: bytes) -> None:
        """
        Adds the histogram in `data`, which `to_bytes` wrote. Raises ValueError.
        """
    def percentile(self, /, percentile: SupportsFloat | SupportsIndex) -> float:
        """
        The latency in microseconds that `percentile` (0-100) of all do not exceed; 0 when empty.
        """
    def record(self, /, nanoseconds: SupportsIndex) -> None:
        """
        Records one latency in nanoseconds.
        """
    def record_many(self, /, stamps: "list[int]", now_ns: "int") -> None:
        """
        Records for each stamp (nanoseconds) the latency until now; a stamp in the future is 0.
        """
    def to_bytes(self, /) -> bytes:
        """
        The histogram in the V2 format of HDR histograms, values in nanoseconds.
        """

@final
class Latest:
    """
    The last value of each key, of record batches with two columns: keys, and values of any type.

    It makes no Python objects of the rows. One thread at a time.
    """
    def __new__(cls, /) -> Latest: ...
    def add(self, /, batch: "Any") -> "bool":
        """
        Takes in a pyarrow.RecordBatch. False, and it was not taken in, if its columns are no keys
        and values, or others than those since the last `take`.
        """
    def take(self, /) -> "Any":
        """
        The last value of each key as a pyarrow.RecordBatch of two columns; they are forgotten. None
        if there are none.
        """

@final
class LatestPairs:
    """
    The last value of each key, of encoded pairs of a key and a value.

    It makes no Python objects of them. One thread at a time.
    """
    def __new__(cls, /) -> LatestPairs: ...
    def add(self, /, batch: "Batch") -> "bool":
        """
        Takes in a batch of pairs. False if a record is no pair, or has a key that is not hashable: then the pairs before
        it were taken in.
        """
    def take(self, /) -> "Batch | None":
        """
        The last value of each key, in the order of the keys; they are forgotten. None if there are none.
        """

@final
class Network:
    """
    All channels of one task, moved by one I/O thread that never needs the GIL.

    Thread-safe: any thread may call `cancel` and `statistics` while another one waits.
    """
    def __new__(cls, /, listen: "list[str]", *, window_bytes: "int | None" = None, send_buffer_bytes: "int | None" = None, max_frame_bytes: "int | None" = None, linger_ms: "float | None" = None, connect_timeout_seconds: "float | None" = None, reconnect_timeout_seconds: "float | None" = None, nap_us: "float | None" = None, encryption: "bool | None" = None, channels: "int | None" = None, attempt: "int" = 0) -> Network:
        """
        Listens on every endpoint: shm:///directory/name, ipc:///directory/name or tcp://host:port
        (port 0 picks one). Raises ValueError for an invalid endpoint, NetworkError when the system
        refuses it. A setting that is None is the usual one.

        `window_bytes`: taken from one channel before any is consumed. `send_buffer_bytes`: wait on
        one output channel before `emit` blocks. `max_frame_bytes`: the largest record. `linger_ms`:
        how long a small frame waits for company. `connect_timeout_seconds`: for peers to answer.
        `reconnect_timeout_seconds`: until a tcp channel that was cut off counts as lost. `nap_us`: how
        long a task that is woken again and again lets frames from shared memory gather.
        `encryption`: tcp channels are encrypted and both ends authenticated. `channels`: how many
        there will be, inputs and outputs; bounds the handshakes at one moment. `attempt`: which
        deployment of the job's tasks this is; those of any other are refused.
        """
    def cancel(self, /) -> None:
        """
        Makes every call that waits, now or later, raise Cancelled.
        """
    def cancel_copy(self, /) -> None:
        """
        Makes every call raise Cancelled, in a forked copy of the process. It takes no lock: a thread that is not
        in the copy may have had it.
        """
    def close(self, /) -> None:
        """
        Stops the I/O thread and removes the rendezvous files; idempotent.
        """
    def connect(self, /, outputs: "list[tuple[int, str]]", *inputs: "list[tuple[int, str]]", side: "list[int]" = ...) -> None:
        """
        Connects all channels, given as (id, endpoint of the other end), and waits until every peer
        has answered; encrypted ones do so once they are connecting, too. Raises NetworkError when one
        does not in time, Cancelled.

        Each of `inputs` has channels of its own, and a batch holds records of one (`Batch.input`). Those
        whose numbers are in `side` are side inputs: `receive` does not wait for their end.
        """
    @property
    def endpoints(self, /) -> list[str]:
        """
        The endpoints that peers connect to, in the order of `listen`: those of tcp with the real
        port and, where they are encrypted, this network's public key (tcp://KEY@host:port).
        """
    def finish(self, /, timeout_seconds: SupportsFloat | SupportsIndex | None = None) -> None:
        """
        Ends every output channel and waits until the peers have consumed everything. Raises
        NetworkError after `timeout_seconds`, Cancelled, ChannelLost.
        """
    def include_side_inputs(self, /) -> None:
        """
        Lets `receive` give what still comes of side inputs, and wait for their end.
        """
    def output_gate(self, /, channels: "list[int]", partitioner: "str", key: "int | str | tuple[int | str, ...] | None" = None, pickle: "bool" = False, columns: "int | str | tuple[int | str, ...] | None" = None, rows: "bool" = False) -> OutputGate:
        """
        The gate to these output channels. `partitioner` is forward (one channel), rebalance,
        broadcast, or hash by `key`: an item of a tuple or list (int), a field of a dict (str), or
        the record itself (None); `columns` is the key of columns, where that is in another place. With
        `pickle`, what cannot travel otherwise is pickled. With `rows`, the operator behind it makes
        rows of columns: each goes where a record with its key goes.
        """
    def pause(self, /, channels: "list[int]", reason: "str") -> None:
        """
        Lets `receive` give nothing of these input channels until `resume` with the same reason: what
        arrives on them stays there, within the channel's window. Raises ValueError for a channel that
        is no input.
        """
    def receive(self, /, timeout_seconds: "float | None" = None) -> "Batch | Control | None":
        """
        The next element of any input: a batch, or what all inputs have come to between two; None once
        all of them ended but side inputs, or all that are not paused. The batch before it counts as
        consumed with this call, and is released. Waits without the GIL; raises TimeoutError if nothing
        comes in time, InterruptedError if nothing is there and `wake` was called, Cancelled, ChannelLost.
        """
    def resume(self, /, channels: "list[int]", reason: "str") -> None:
        """
        Lets `receive` give what these channels have that are paused for no other reason, and wakes it;
        from any thread. Raises ValueError for a channel that is no input.
        """
    def statistics(self, /) -> NetworkStatistics:
        """
        A snapshot of the counters.
        """
    def unlink_endpoints(self, /) -> None:
        """
        Removes the rendezvous files of this network's own endpoints: after every peer connected.
        """
    def wake(self, /) -> None:
        """
        Makes `receive` raise InterruptedError once, now or the next time that nothing is there; from any
        thread.
        """

@disjoint_base
class NetworkError(Exception):
    """
    The network of a task could not be set up, or could not deliver everything.
    """
    def __new__(cls, /, message: "str") -> NetworkError: ...

@final
class NetworkStatistics:
    """
    The counters of one network. Counters only grow; backlog and credit are those of the moment.
    """
    @property
    def backlog_bytes(self, /) -> int:
        """
        Bytes that wait here for credit, over all channels.
        """
    @property
    def blocked_seconds(self, /) -> float:
        """
        Seconds that `emit` has waited for receivers.
        """
    @property
    def dropped_messages(self, /) -> int:
        """
        Messages that were dropped: garbage, unknown channels, frames out of place.
        """
    @property
    def idle_seconds(self, /) -> float:
        """
        Seconds that `receive` has waited for a batch.
        """
    @property
    def inputs(self, /) -> list[InputStatistics]:
        """
        One entry per input channel, in the order in which they were connected.
        """
    @property
    def longest_barrier_wait_seconds(self, /) -> float:
        """
        Longest time for which inputs that had come to a barrier waited for the others, in seconds.
        """
    @property
    def outputs(self, /) -> list[OutputStatistics]:
        """
        One entry per output channel, in the order in which they were connected.
        """
    @property
    def refused_connections(self, /) -> int:
        """
        Connections that were turned away: no key or a wrong one, garbage, a handshake that took too
        long, or too many of them at once.
        """

@final
class OutputGate:
    """
    The channels from this task to the tasks of one downstream operator.

    A record goes to all of them (broadcast), to the next (rebalance), or to the one that its key
    chooses (hash); records of one channel stay in order. Rows of columns go where records with
    their key go; to rebalance, they are dealt out by the batch. One thread at a time.
    """
    def emit(self, /, records: "Any", stamps: "list[int] | None" = None) -> None:
        """
        Encodes `records`, a list, `Paired`, `Batch` or a pyarrow.RecordBatch, into the channels' open
        frames, in one pass, and returns once every channel takes more again: blocks without the GIL
        while a receiver is too slow. The encoded records of a `Batch` are copied as they are.

        `stamps` (nanoseconds) become markers behind the last record. Raises EncodeError or
        KeyExtractError naming the record, whose index in the list is the exception's `record_index`
        (those before it are emitted), Cancelled, ChannelLost.
        """
    def send_control(self, /, control: Control) -> None:
        """
        Sends a control behind everything that was emitted, on every channel; blocks as `emit` does.
        Raises Cancelled, ChannelLost.
        """

@final
class OutputStatistics:
    """
    The counters of one output channel.
    """
    @property
    def backlog_bytes(self, /) -> int:
        """
        Bytes that wait here for credit.
        """
    @property
    def bytes(self, /) -> int:
        """
        Bytes of records that left this task.
        """
    @property
    def channel(self, /) -> int:
        """
        Id of the channel.
        """
    @property
    def clock_offset_seconds(self, /) -> float:
        """
        What the receiver's monotonic clock is ahead of this host's, in seconds.
        """
    @property
    def clock_uncertainty_seconds(self, /) -> float:
        """
        How far off that may be, in seconds; 0 on one host.
        """
    @property
    def credit_bytes(self, /) -> int:
        """
        Bytes that the receiver would still accept.
        """
    @property
    def frames(self, /) -> int:
        """
        Data frames that left this task.
        """
    @property
    def longest_interruption_seconds(self, /) -> float:
        """
        Longest time for which the receiver was cut off or silent, in seconds.
        """
    @property
    def reconnects(self, /) -> int:
        """
        Connections that took the place of an earlier one.
        """
    @property
    def records(self, /) -> int:
        """
        Records that left this task.
        """
    @property
    def retransmitted_frames(self, /) -> int:
        """
        Frames that were sent again, after a reconnect.
        """

@final
class Paired:
    """
    Records of which each stands for the tuple of it and `beside`, which is the same for all.

    A gate encodes the tuples without making them.
    """
    def __len__(self, /) -> int: ...
    def __new__(cls, /, records: "list[Any]", beside: "Any") -> Paired: ...
    def to_list(self, /) -> "list[tuple[Any, Any]]":
        """
        The tuples.
        """

@final
class Program:
    """
    Lifted functions one after the other, over encoded records: with the results of the functions themselves, or none.

    Each stage is "map", "filter", "flat_map" or "key", which makes tuples of the result and the record, and the data of
    its `Expression`. Raises ValueError for an operation that is not known here. One thread at a time.
    """
    def __new__(cls, /, stages: "list[tuple[str, Any]]") -> Program: ...
    @property
    def counts(self, /) -> list[int]:
        """
        The number of records out of each stage in the last run.
        """
    def run(self, /, batch: "Batch | list[Any]", pickle: "bool" = False) -> "Batch | str":
        """
        The encoded results of a batch or a list of records; or why it gives up, and the functions are to be called
        with the whole batch. With `pickle`, records of a list that cannot travel otherwise are pickled.
        """

@disjoint_base
class ResourceError(Exception):
    """
    There is no memory for a blob.
    """
    def __new__(cls, /, message: "str") -> ResourceError: ...

@final
class RollingAggregate:
    """
    What `Aggregate` computes, for each record of those of its key within spans that end at it. Results are
    tuples of a record and the value, or where `fields` are a list, a dict of values by them: of each span
    those of all aggregations.

    `key`, `wanted` and `names` are those of `Aggregate`; `time` and `times` those of `WindowAggregate`, whose
    `times` needs `microseconds` alone. `spans` are ("time", microseconds) or ("rows", number). With `paired`, what comes
    are pairs of a key and a record. Over columns, results are `pyarrow.RecordBatch`es with a column for each of `fields`.
    With `updates`, results come at once, of what has come. With `keeps_late`, `take_late` gives what came too late.

    `rescue` is that of `Aggregate`. One thread at a time.
    """
    def __len__(self, /) -> int:
        """
        Number of keys of which something is kept.
        """
    def __new__(cls, /, key: "list[list[int | str]]", wanted: "list[tuple[Any, ...]]", names: "list[str] | None", *, spans: "list[tuple[str, int]]", fields: "str | list[str]", time: "tuple[list[int | str], str | None, int | str | None, int]", times: "Any", paired: "bool" = False, updates: "bool" = False, keeps_late: "bool" = False, rescue: "Any" = None) -> RollingAggregate: ...
    def add(self, /, batch: "Batch") -> "None":
        """
        Takes a batch in. Raises AggregateError naming the record.
        """
    def advance(self, /, watermark_us: "int") -> "None":
        """
        Says that event time has come here, in microseconds. `complete` then gives what is due.
        """
    def complete(self, /, most: "int") -> "Any":
        """
        About so many results that are due, in the order of time; an empty list if there are no more.
        """
    @property
    def late(self, /) -> int:
        """
        How many records came when the watermark was at their time or behind it.
        """
    def restore(self, /, layout: "bytes", entries: "KeyedEntries") -> "None":
        """
        Goes on with what others kept, before the first batch. Raises AggregateError where it does not
        suit.
        """
    def snapshot(self, /) -> "tuple[bytes, KeyedEntries]":
        """
        What it keeps, for `restore`: as `Aggregate.snapshot`. What is kept of a key is a tuple of the times and
        values that spans may have, and of the records that wait.
        """
    def take_late(self, /) -> "list[Any]":
        """
        Those that came so since it was called, in batches.
        """
    @property
    def times(self, /) -> Any:
        """
        What it was given to read times.
        """

@final
class S3Client:
    """
    A bucket and prefix of an S3 endpoint. Thread-safe; every call ends soon after Ctrl-C.

    All calls raise StorageFailed with the message and S3's code.
    """
    def __new__(cls, /, bucket: "str", prefix: "str", *, endpoint: "str | None" = None, region: "str | None" = None, role_arn: "str | None" = None, parallel: "int" = 8, part_bytes: "int" = 8388608, retries: "int" = 6) -> S3Client:
        """
        Finds endpoint, region and credentials; asks nobody yet.
        """
    def abort_upload(self, /, key: "str", id: "str") -> None:
        """
        Forgets an upload; a missing one is ignored.
        """
    def begin_upload(self, /, key: "str") -> str:
        """
        Begins an upload and gives its id; nobody sees the object until it is completed.
        """
    def complete_upload(self, /, key: "str", id: "str", tags: "list[str]") -> None:
        """
        Makes the object of an upload.
        """
    def create(self, /, key: "str", data: "memoryview") -> bool:
        """
        Writes an object in one request unless the key has one; whether it did.
        """
    def delete(self, /, keys: "list[str]") -> None:
        """
        Removes objects; missing ones are ignored.
        """
    @property
    def endpoint(self, /) -> str:
        """
        Where requests go.
        """
    def fill_upload(self, /, key: "str", id: "str", path: "str") -> list[str]:
        """
        Sends a file's content to an upload; the tags that complete it.
        """
    def get_into(self, /, key: "str", buffer: "memoryview") -> None:
        """
        Fills a writable buffer of bytes with the object, which must have its size.
        """
    def get_part_into(
        self, /, key: "str", start: "int", tag: "str", buffer: "memoryview"
    ) -> None:
        """
        Fills a writable buffer with bytes of the object's version with this tag, from `start` on.
        """
    def list(self, /, below: "str" = "") -> list[tuple[str, int, str]]:
        """
        All objects below prefix and `below`: key after the prefix, bytes, and tag of the version.
        """
    def put(self, /, key: "str", data: "memoryview") -> None:
        """
        Writes an object; it is there whole or not at all.
        """
    def put_file(self, /, key: "str", path: "str") -> None:
        """
        Writes a file's content as an object.
        """
    def size(self, /, key: "str") -> int:
        """
        The size of the object.
        """

@disjoint_base
class StorageFailed(Exception):
    """
    A request to S3 failed: what it was about, and S3's code for it, such as NoSuchKey.
    """
    def __new__(cls, /, message: "str", code: "str") -> StorageFailed: ...

@final
class TimeFunction:
    """
    A function of records that gives their times, as an expression, for operators that read times in Rust.

    `lifted` is the data of its `Expression`, `unit` what numbers count: "s", "ms", "us" or "ns". Raises ValueError for
    an operation that is not known here. One thread at a time.
    """
    def __new__(cls, /, lifted: "Any", unit: "str") -> TimeFunction: ...
    def figures(self, /) -> "tuple[int, str | None]":
        """
        How often it has given a time since this was called, and why it gave up, if it did.
        """
    def of(self, /, record: "Batch") -> "tuple[Any] | None":
        """
        What it gives for the only record of a batch, in a tuple; None if it gives up.
        """
    def run(self, /, runs: "bool") -> "None":
        """
        Says whether it may be called from now on; it may not before.
        """

@final
class Top:
    """
    The first `most` records of each key, encoded, in the order of values in them.

    `key` is the place of the key in a record, None for the record itself; with `paired`, pairs of a key and a record
    come. `by` has the places of the values to rank by, the first of which decides first; `descending` tells of each whether
    the greatest is in front. Values are texts, or numbers of 64 bits; NaN is behind all. One thread at a time.
    """
    def __new__(cls, /, key: "int | str | tuple[int | str, ...] | None", by: "int | str | tuple[int | str, ...] | None", descending: "list[bool] | tuple[bool, ...]", *, paired: "bool", most: "int") -> Top: ...
    def add(self, /, batch: "Batch", wanted: "bool") -> "Batch | str | None":
        """
        Takes a batch in. Gives each key whose first records are others now with the list of these, or None if they are
        not `wanted`. Or why it cannot be done here: nothing has happened then.
        """
    def entries(self, /) -> "KeyedEntries":
        """
        The first records of all keys as they are now.
        """
    def found(self, /, first: "int", most: "int") -> "Batch":
        """
        The keys from this one on in the order in which they came, `most` at most, each with the list of its first
        records.
        """
    def restore(self, /, entries: "KeyedEntries") -> "bool":
        """
        Goes on with what others kept, before the first batch. False if that cannot be done here.
        """

@final
class WindowAggregate:
    """
    What `Aggregate` computes, of the records of each window of event time. Results are tuples of a
    key, its value, and the start and end of the window.

    `key`, `wanted` and `names` are those of `Aggregate`. `time` has the path to the time, what numbers
    there count ("s", "ms", "us" or "ns"), the name or index of the column where columns have it elsewhere, and how
    many microseconds before what is found there the time is. `times` is an object with methods: of what is at the
    path but is no number, or where numbers count nothing, `microseconds` gives the time; `form` of
    the first time gives 1970 in its form, and `like` of that a function, which gives microseconds in
    this form. `windows` are "slices" with size, slide and offset, or "sessions" or "inclusive sessions"
    with the gap, in microseconds as `lateness` is; or a "calendar" of so many days, one of which begins a
    window, or so many months, with the offset of its zone, and moments with the offset from then on; or
    "counts" with size and slide, for which there is no time: those that are full come by `complete`. With `updates`, windows come as they change. Over columns, times are a column, and results `pyarrow.RecordBatch`es
    with columns `window_start` and `window_end`. With `keeps_late`, `take_late` gives what came too late.

    `rescue` is that of `Aggregate`, and so is `copies_keys`: where each key has windows of its own, and of slices over columns.

    One thread at a time.
    """
    def __len__(self, /) -> int:
        """
        Number of slices of time that are kept, or of windows where each key has its own.
        """
    def __new__(cls, /, key: "list[list[int | str]]", wanted: "list[tuple[Any, ...]]", names: "list[str] | None", *, time: "tuple[list[int | str], str | None, int | str | None, int]", times: "Any", windows: "tuple[str, list[int]]", lateness: "int" = 0, updates: "bool" = False, keeps_late: "bool" = False, copies_keys: "bool" = False, rescue: "Any" = None) -> WindowAggregate: ...
    def add(self, /, batch: "Batch") -> "None":
        """
        Takes a batch in. Raises AggregateError naming the record.
        """
    def advance(self, /, watermark_us: "int") -> "None":
        """
        Says that event time has come here, in microseconds. `complete` then gives what is complete.
        """
    def changes(self, /) -> "Any":
        """
        What the windows that changed since it was called have come to, of each key that did; without
        `updates`, of those that were given already and count late records.
        """
    def clear(self, /) -> "None":
        """
        Forgets the records of all slices of time, which have a few keys; event time stays where it is.
        """
    def complete(self, /, most: "int") -> "Any":
        """
        At most so many results of windows that are complete; an empty list if there are no more.
        """
    def has_changes(self, /) -> "bool":
        """
        Whether windows have changed since `changes` was called.
        """
    @property
    def late(self, /) -> int:
        """
        How many records came when their windows were gone.
        """
    def merge(self, /, layout: "bytes", entries: "KeyedEntries") -> "None":
        """
        Takes in slices of time that another keeps, behind what is here. Raises AggregateError where they do
        not suit, or are late.
        """
    def restore(self, /, layout: "bytes", entries: "KeyedEntries", touched: "bool") -> "None":
        """
        Goes on with what others kept, before the first batch. `touched` tells that `changes` shall
        give these windows. Raises AggregateError where it does not suit.
        """
    def snapshot(self, /) -> "tuple[bytes, KeyedEntries]":
        """
        What it keeps, for `restore`: as `Aggregate.snapshot`. What is kept of a key is a tuple of the
        watermark and of tuples: the start of a slice of time, 1970 in the form of its times, and what
        `Aggregate` keeps.
        """
    def take_late(self, /) -> "list[Any]":
        """
        Those that came so since it was called, in batches.
        """
    @property
    def times(self, /) -> Any:
        """
        What it was given to read times.
        """

@final
class WindowFold:
    """
    The windows of a task, and what functions of Python make of the records of a key in each.

    `fold` has four functions. The first makes a value of a key's first record; None: the record is the value. The second
    adds one more record to a value; None: a value is the list of its records. The third makes one value of a list of
    them. The fourth makes a result of key, value, start and end; None: the value is the result.

    `key` and `time` say where in a record these are: None (the record itself), an item or a field. A key may also be a
    tuple of these, and of an empty one results have no key; a time may be a function. `paired`: a record is a pair of its key and the record with the time.

    `times` has two methods. `read` takes a time that is no number and returns microseconds and the number of its form;
    `like` takes the number of a form and returns a function that writes microseconds in it. Integers have form 0, floats
    form 1. `unit` is what numbers count: "s", "ms", "us" or "ns"; without it, `read` reads them, too. `before_us` is
    subtracted from each time.

    `key_forms` are functions that make a new key comparable; the next one is called where comparing raises TypeError.
    `windows` and `lateness` are those of `WindowAggregate`. `tells_changes`: `changed` returns windows before they are
    complete, and `complete` those alone that changed since. `alone`: a record that fails leaves everything as it was.

    `lifted` is the data of the second function's `Expression`, with the function of times if there is one: `run` takes
    encoded batches in by these. It suits where the value of a first record is the record.

    A result is a tuple: key, value, start and end of the window.

    One thread at a time.
    """
    def __new__(cls, /, fold: "tuple[Any, Any, Any, Any]", key: "int | str | tuple[int | str, ...] | None", time: "Any", *, paired: "bool", times: "Any", unit: "str | None", before_us: "int", key_forms: "list[Any]", windows: "tuple[str, list[int]]", lateness: "int", tells_changes: "bool", alone: "bool", lifted: "tuple[Any, TimeFunction | None] | None" = None) -> WindowFold: ...
    def add(self, /, batch: "list[Any]", first: "int", out: "list[tuple[Any, Any, Any, Any]]", late: "list[Any]") -> "None":
        """
        Takes in the records of a batch from this one on. Results that come with them are added to `out`, and records
        that come too late to `late`.
        """
    def advance(self, /, watermark_us: "int") -> "None":
        """
        Says that event time has come here, in microseconds. `complete` then gives what is complete.
        """
    @property
    def at(self, /) -> int:
        """
        The index of the record for which `add` or `run` raised.
        """
    def changed(self, /) -> "list[tuple[Any, Any, Any, Any]]":
        """
        Results of the windows that changed since the last call and were not returned.
        """
    def complete(self, /, most: "int") -> "list[tuple[Any, Any, Any, Any]]":
        """
        At most so many results of windows that are complete; an empty list if there are no more.
        """
    def gave_up(self, /) -> "str | None":
        """
        Why it gave up on something since this was called, which the function itself got then.
        """
    def has_changed(self, /) -> "bool":
        """
        Whether there are any.
        """
    def keys(self, /) -> "dict[Any, int]":
        """
        The numbers of the keys.
        """
    def parts(self, /) -> "Any":
        """
        What is kept: of each key its number, the watermark or how many records it had, and a tuple for each value:
        the start, the end of a session, the number of the form of times, and the number of the value.
        """
    def restore(self, /, key: "Any", head: "int | None", parts: "list[tuple[int, int, int, Any]]") -> "None":
        """
        Goes on with what was kept of a key, before the first batch, as `parts` gave it but for the values themselves.
        `restored` is to be called behind the last.
        """
    def restored(self, /, watermark_us: "int | None", touched: "bool") -> "None":
        """
        All is restored, and event time had come here. `touched` tells that `changed` shall give these windows.
        """
    def run(self, /, batch: "Batch", out: "list[tuple[Any, Any, Any, Any]]", late: "list[Any]") -> "str | None":
        """
        The same of an encoded batch, without a Python object for a record. Or why that is given up: nothing has happened
        then, and `add` is to be called.
        """
    def run_lifted(self, /, runs: "bool") -> "None":
        """
        Whether the lifted function may be called, until it gives up on something.
        """
    def values(self, /) -> "dict[int, Any]":
        """
        What records have come to, by the numbers of the values; or what stands for its encoding.
        """

@final
class WindowSpans:
    """
    Says which windows have a time; `windows` are slices or a calendar of `WindowAggregate`.
    """
    def __new__(cls, /, windows: "tuple[str, list[int]]") -> WindowSpans: ...
    def of(self, /, time_us: "int") -> "list[tuple[int, int]]":
        """
        The starts and ends of the windows that have this time, in order, all in microseconds. There is none in a gap
        between two.
        """

def columns_of_dicts(records: "Any", schema: "Any" = None) -> "tuple[Any, list[str]] | None":
    """
    Columns of dicts: a pyarrow.RecordBatch of those that are made here, and the names of all; None where
    PyArrow is to make them all. `schema` is a pyarrow.Schema, or None.
    """

def decode_value(encoded: "bytes | memoryview") -> "Any":
    """
    The value of which `encode_parts` gave this, in a buffer that nobody changes. Raises DecodeError.
    """

def dicts_of_rows(batch: "Any") -> "list[dict[str, Any]]":
    """
    A dict of each row of a pyarrow.RecordBatch whose columns have different names: what its `to_pylist`
    gives, and what that raises.
    """

def encode_parts(value: "Any", pickle: "bool" = False) -> "list[bytes | memoryview]":
    """
    A value as a record is encoded, in parts one behind the other: byte strings of 64 KiB or more are parts of
    their own, not copied, if nothing but tuples, lists and dicts is around them. With `pickle`, what cannot be
    encoded otherwise is pickled. Raises EncodeError.
    """

def ipc_streams(batch: "Any", rows: "list[int]", ends: "list[int]") -> "list[bytes]":
    """
    Of some rows of a pyarrow.RecordBatch, which ascend between one of the ends and the next, an Arrow IPC
    stream for each of these parts.
    """

def is_portable() -> bool:
    """
    Whether this is built without what only Linux has, as it is on macOS: channels in shared memory,
    sealed memory, precise timers.
    """

def keyed_entries(pairs: "list[tuple[Any, Any]]", pickle: "bool" = False) -> "KeyedEntries":
    """
    Pairs of a key and a value as entries of keyed state. With `pickle`, what cannot be encoded otherwise
    is pickled. Raises EncodeError or KeyExtractError naming the pair.
    """

def mapped(path: "str") -> "memoryview | None":
    """
    The bytes of a file that nobody writes any more, where they are: all processes of the machine have them
    in memory once, and they stay for as long as the view does, also if the file is deleted. None where it
    is on no file system of the machine itself: those may take it away, which kills who looks at it. Raises
    OSError.
    """

def needs(values: "bytes | memoryview") -> "tuple[list[int], list[bytes]]":
    """
    What encoded values need of whoever decodes them: the extension codes from that of pickles on, and the names
    of classes that go by no number. Raises DecodeError.
    """

def partition(keys: "list[Any]", channels: "int") -> "list[int]":
    """
    The channel, out of `channels`, of each of `keys`: what a hash-partitioned gate chooses.
    """

def plain_keys(columns: "Any") -> "Any":
    """
    Columns of keys, a pyarrow.RecordBatch, as columns of which values are equal where keys are: without
    dictionaries, and times and decimals as bytes. Raises TypeError naming the column that holds none.
    """

def register_extensions(travel: Any, find_class: Any, decode: Any, plain_key: Any, canonical_key: Any, number: Any, pickle: Any) -> None:
    """
    Registers the functions for values that Rust does not encode itself; once per process.

    `travel(class)` gives an `engine.record.Shape`, or raises TypeError; `find_class(reference)` gives
    the class that a shape's reference stands for; `decode(code, payload)` gives a value whose
    payload a shape gave; `plain_key(value)` gives None, a bool, int, float, str, bytes or a tuple
    of them that is equal for equal values, or raises TypeError; `canonical_key(value)` gives one that
    is equal for no others of its kind; `number(value)` gives what stands for it in a sum, or None if it
    is no number; `pickle(value)` gives the payload of a value of any class, or raises TypeError.
    """

def take_rows(batch: "Any", rows: "Any") -> "Any":
    """
    The rows with these numbers, a pyarrow.Array of integers, of a pyarrow.RecordBatch: of columns of all
    types, in memory of its own.
    """

def use_precise_timers() -> None:
    """
    Makes the timers of the calling thread end within a few microseconds of their time, not 50. Linux
    puts timers off to end several with one wake-up (timer slack); a task that sleeps for tens of
    microseconds gains nothing from that. Nothing changes elsewhere. Raises OSError.
    """

def xxh3(parts: "list[bytes | memoryview]") -> "bytes":
    """
    XXH3 of 128 bits over buffers that lie behind one another: 16 bytes, as `xxhsum -H2` tells them.
    It tells what was torn or flipped by accident from what was written; computed without the GIL.
    """
