package oka.peers;

import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.types.Row;

/**
 * Running counts of words: keeps the last of each, and how many words arrived in the window.
 *
 * <p>A count that is higher by n than the one before says that n words have been counted, so that
 * operators which emit a count for several words at once are counted right too.
 */
public final class CountSink<T> implements Sink<T> {
    private final Settings settings;
    private final Field<T, String> word;
    private final Field<T, Long> count;

    private CountSink(String settings, Field<T, String> word, Field<T, Long> count)
            throws IOException {
        this.settings = Settings.of(settings);
        this.word = word;
        this.count = count;
    }

    /** A sink of (word, count). */
    public static CountSink<Tuple2<String, Long>> ofTuples(String settings) throws IOException {
        return new CountSink<>(settings, tuple -> tuple.f0, tuple -> tuple.f1);
    }

    /** A sink of rows with word and count as their first two fields. */
    public static CountSink<Row> ofRows(String settings) throws IOException {
        return new CountSink<>(
                settings, row -> (String) row.getField(0), row -> (Long) row.getField(1));
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        return new Writer(context.getTaskInfo().getIndexOfThisSubtask());
    }

    /** One field of a T. */
    private interface Field<T, V> extends Function<T, V>, Serializable {}

    private final class Writer implements SinkWriter<T> {
        private final int index;
        private final Map<String, Long> counts = new HashMap<>();
        private long words;
        private int untilLook = 1;
        /** When the warm-up ends; 0 before the first word. */
        private long begin;
        private long first;
        private long wordsAtFirst;
        private long[] latencies = new long[1024];
        private int latencyCount;

        Writer(int index) {
            this.index = index;
        }

        @Override
        public void write(T element, Context context) {
            Long now = count.apply(element);
            Long before = counts.put(word.apply(element), now);
            words += before == null ? now : now - before;
            Long stamp = context.timestamp();
            boolean stamped = stamp != null && stamp != WordSource.NO_STAMP;
            if (stamped || --untilLook == 0) {
                look(stamped ? stamp : WordSource.NO_STAMP);
            }
        }

        /** Look at the clock. */
        private void look(long stamp) {
            untilLook = LOOK_INTERVAL;
            long now = System.nanoTime();
            if (first != 0) {
                if (stamp != WordSource.NO_STAMP) {
                    if (latencyCount == latencies.length) {
                        latencies = Arrays.copyOf(latencies, 2 * latencyCount);
                    }
                    latencies[latencyCount++] = Math.max(0, now - stamp);
                }
            } else if (begin == 0) {
                begin = now + settings.warmupNanos();
            } else if (now >= begin) {
                first = now;
                wordsAtFirst = words;
                settings.mark("window-" + index);
            }
        }

        @Override
        public void flush(boolean endOfInput) {
            if (!endOfInput) {
                return;
            }
            long last = System.nanoTime();
            boolean begun = first != 0;
            settings.write(
                    "sink-" + index + ".json",
                    Map.of(
                            "counts", counts,
                            "window",
                                    Map.of(
                                            "words", begun ? words - wordsAtFirst : 0,
                                            "first_ns", begun ? first : last,
                                            "last_ns", last),
                            "latencies_ns", Settings.base64(latencies, latencyCount)));
        }

        @Override
        public void close() {}
    }

    /** Records between two looks at the clock, where none has a stamp. */
    private static final int LOOK_INTERVAL = 100;
}
