package oka.peers;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Words by the tenth of a second, tumbling windows of event time, with Flink's DataStream. */
public final class WordWindows {
    private WordWindows() {}

    /** Runs until the sources have emitted for as long as the settings, in JSON, say. */
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment =
                WordCount.environment(Settings.of(arguments[0]));
        environment
                .fromSource(
                        new WordSource(arguments[0]),
                        WatermarkStrategy.<String>forMonotonousTimestamps()
                                .withTimestampAssigner(
                                        (word, stamp) -> System.currentTimeMillis()),
                        "words",
                        Types.STRING)
                .keyBy(word -> word)
                .window(TumblingEventTimeWindows.of(A_TENTH))
                .aggregate(new Count(), new WithWord())
                .map(new Totals())
                .sinkTo(CountSink.ofTuples(arguments[0]));
        environment.execute();
    }

    private static final class Count implements AggregateFunction<String, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(String word, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    /** The count of a window behind its word. */
    private static final class WithWord
            implements WindowFunction<Long, Tuple2<String, Long>, String, TimeWindow> {
        @Override
        public void apply(
                String word,
                TimeWindow window,
                Iterable<Long> counts,
                Collector<Tuple2<String, Long>> output) {
            for (Long count : counts) {
                output.collect(Tuple2.of(word, count));
            }
        }
    }

    /** How often each word has been there up to the window's end; chained to the windows. */
    private static final class Totals
            extends RichMapFunction<Tuple2<String, Long>, Tuple2<String, Long>> {
        private transient Map<String, Long> totals;

        @Override
        public void open(OpenContext context) {
            totals = new HashMap<>();
        }

        @Override
        public Tuple2<String, Long> map(Tuple2<String, Long> window) {
            return Tuple2.of(window.f0, totals.merge(window.f0, window.f1, Long::sum));
        }
    }

    private static final Duration A_TENTH = Duration.ofMillis(100);
}
