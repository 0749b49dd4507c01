package oka.peers;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.io.InputStatus;

/**
 * Random words for a length of time, by each source task on its own.
 *
 * <p>Every hundredth word has a stamp (nanoseconds of {@link System#nanoTime}) as its timestamp:
 * now, or the moment when it is due at the rate; the others have {@link #NO_STAMP}, which is what
 * Flink itself gives to a record without timestamp. There are no splits, and no checkpoints.
 */
public final class WordSource implements Source<String, WordSource.None, WordSource.None> {
    /** Timestamp of a word without stamp. */
    static final long NO_STAMP = Long.MIN_VALUE;

    private final Settings settings;

    /** A source of a run with these settings, in JSON. */
    public WordSource(String settings) throws IOException {
        this.settings = Settings.of(settings);
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<String, None> createReader(SourceReaderContext context) {
        return new Reader(settings, context.getIndexOfSubtask());
    }

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

    private static final class Reader implements SourceReader<String, None> {
        private final Settings settings;
        private final int index;
        private final Words words;
        /** Words per second of this task; 0: as fast as possible. */
        private final double rate;
        private long start;
        private long sent;
        private int untilStamp = 1;

        Reader(Settings settings, int index) {
            this.settings = settings;
            this.index = index;
            this.words = new Words(settings, index);
            this.rate = settings.rate() / settings.parallelism();
        }

        @Override
        public void start() {
            settings.mark("started-" + index);
            start = System.nanoTime();
        }

        @Override
        public InputStatus pollNext(ReaderOutput<String> output) throws InterruptedException {
            long elapsed = System.nanoTime() - start;
            if (elapsed >= settings.lengthNanos()) {
                words.write();
                return InputStatus.END_OF_INPUT;
            }
            long due = WORDS_PER_POLL;
            if (rate > 0) {
                due = Math.min(due, (long) (elapsed * rate / 1e9) + 1 - sent);
                if (due == 0) {
                    Thread.sleep(0, PAUSE_NANOS);
                }
            }
            for (; due > 0; due--) {
                long stamp = NO_STAMP;
                if (--untilStamp == 0) {
                    untilStamp = STAMP_INTERVAL;
                    stamp = rate > 0 ? start + (long) (sent / rate * 1e9) : System.nanoTime();
                }
                sent++;
                output.collect(words.draw(), stamp);
            }
            return InputStatus.MORE_AVAILABLE;
        }

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
        public void close() {}
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

    private static final int STAMP_INTERVAL = 100;
    /** Few enough that the task looks at its mailbox often. */
    private static final int WORDS_PER_POLL = 64;
    private static final int PAUSE_NANOS = 50_000;
}
