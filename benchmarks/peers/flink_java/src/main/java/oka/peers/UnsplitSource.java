package oka.peers;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** A source whose tasks know their shares: there are no splits, and no checkpoints. */
abstract class UnsplitSource<T> implements Source<T, UnsplitSource.None, UnsplitSource.None> {
    @Override
    public SplitEnumerator<None, None> createEnumerator(SplitEnumeratorContext<None> context) {
        return new NoSplits();
    }

    @Override
    public SplitEnumerator<None, None> restoreEnumerator(
            SplitEnumeratorContext<None> context, None checkpoint) {
        return new NoSplits();
    }

    @Override
    public SimpleVersionedSerializer<None> getSplitSerializer() {
        return new NoneSerializer();
    }

    @Override
    public SimpleVersionedSerializer<None> getEnumeratorCheckpointSerializer() {
        return new NoneSerializer();
    }

    /** A task of it, which always has its next record. */
    abstract static class Reader<T> implements SourceReader<T, None> {
        @Override
        public void start() {}

        @Override
        public CompletableFuture<Void> isAvailable() {
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public List<None> snapshotState(long checkpoint) {
            return List.of();
        }

        @Override
        public void addSplits(List<None> splits) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() throws IOException {}
    }

    private static final class NoSplits implements SplitEnumerator<None, None> {
        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<None> splits, int subtask) {}

        @Override
        public void addReader(int subtask) {}

        @Override
        public None snapshotState(long checkpoint) {
            return new None();
        }

        @Override
        public void close() {}
    }

    /** A split, or a checkpoint, that says nothing. */
    public record None() implements SourceSplit {
        @Override
        public String splitId() {
            return "";
        }
    }

    private static final class NoneSerializer implements SimpleVersionedSerializer<None> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(None none) {
            return new byte[0];
        }

        @Override
        public None deserialize(int version, byte[] bytes) {
            return new None();
        }
    }
}
