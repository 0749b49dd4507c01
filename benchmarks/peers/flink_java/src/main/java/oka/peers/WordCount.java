package oka.peers;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** A running word count with Flink's DataStream in one JVM: source, shuffle, keyed state, sink. */
public final class WordCount {
    private WordCount() {}

    /** Runs until the sources have emitted for as long as the settings, in JSON, say. */
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = environment(Settings.of(arguments[0]));
        environment
                .fromSource(
                        new WordSource(arguments[0]),
                        WatermarkStrategy.noWatermarks(),
                        "words",
                        Types.STRING)
                .keyBy(word -> word)
                .process(new RunningCount())
                .sinkTo(CountSink.ofTuples(arguments[0]));
        environment.execute();
    }

    /** Flink in this JVM, with state on the heap and without copies between chained operators. */
    static StreamExecutionEnvironment environment(Settings settings) {
        Configuration configuration = new Configuration();
        configuration.set(StateBackendOptions.STATE_BACKEND, "hashmap");
        configuration.set(PipelineOptions.OBJECT_REUSE, true);
        configuration.set(ExecutionOptions.BUFFER_TIMEOUT, BUFFER_TIMEOUT);
        return StreamExecutionEnvironment.createLocalEnvironment(
                settings.parallelism(), configuration);
    }

    /** How often each word has been there, emitted for each word. */
    private static final class RunningCount
            extends KeyedProcessFunction<String, String, Tuple2<String, Long>> {
        private final Tuple2<String, Long> result = new Tuple2<>();
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(
                String word, Context context, Collector<Tuple2<String, Long>> output)
                throws Exception {
            Long before = count.value();
            Long now = before == null ? 1L : before + 1;
            count.update(now);
            result.setFields(word, now);
            output.collect(result);
        }
    }

    /** A buffer that is not full leaves after this. */
    private static final Duration BUFFER_TIMEOUT = Duration.ofMillis(5);
}
