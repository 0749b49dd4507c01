package oka.peers;

import java.io.IOException;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/**
 * Random words for a length of time, by each source task on its own.
 *
 * <p>Every hundredth word has a stamp (nanoseconds of {@link System#nanoTime}) as its timestamp:
 * now, or the moment when it is due at the rate; the others have {@link #NO_STAMP}, which is what
 * Flink itself gives to a record without timestamp.
 */
public final class WordSource extends UnsplitSource<String> {
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
        return new WordReader(settings, context.getIndexOfSubtask());
    }

    private static final class WordReader extends UnsplitSource.Reader<String> {
        private final Settings settings;
        private final int index;
        private final Words words;
        /** Words per second of this task; 0: as fast as possible. */
        private final double rate;
        private long start;
        private long sent;
        private int untilStamp = 1;

        WordReader(Settings settings, int index) {
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
    }

    private static final int STAMP_INTERVAL = 100;
    /** Few enough that the task looks at its mailbox often. */
    private static final int WORDS_PER_POLL = 64;
    private static final int PAUSE_NANOS = 50_000;
}
