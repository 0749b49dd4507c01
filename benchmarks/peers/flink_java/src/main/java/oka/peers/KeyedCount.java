package oka.peers;

import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** A running count of each of many keys, which a checkpoint has to write. */
public final class KeyedCount {
    private KeyedCount() {}

    public static void main(String[] arguments) throws Exception {
        Repeated.run(arguments[0], KeyedCount::execute);
    }

    private static void execute(JsonNode settings, Configuration configuration) throws Exception {
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(configuration);
        Keys keys =
                new Keys(
                        settings.required("records").longValue(),
                        settings.required("keys").intValue(),
                        settings.required("parallelism").intValue());
        environment
                .fromSource(keys, WatermarkStrategy.noWatermarks(), "keys", Types.INT)
                .keyBy(key -> key)
                .process(new Count())
                .sinkTo(new Total());
        environment.execute();
    }

    /** Emits each count. */
    static final class Count extends KeyedProcessFunction<Integer, Integer, Long> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Integer key, Context context, Collector<Long> output)
                throws Exception {
            Long before = count.value();
            long now = before == null ? 1 : before + 1;
            count.update(now);
            output.collect(now);
        }
    }

    /** So many keys, each drawn as often as any other, in an order without a pattern. */
    private static final class Keys extends UnsplitSource<Integer> {
        private final long records;
        private final int keys;
        private final int parallelism;

        Keys(long records, int keys, int parallelism) {
            this.records = records;
            this.keys = keys;
            this.parallelism = parallelism;
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.BOUNDED;
        }

        @Override
        public SourceReader<Integer, None> createReader(SourceReaderContext context) {
            return new KeyReader(context.getIndexOfSubtask());
        }

        private final class KeyReader extends UnsplitSource.Reader<Integer> {
            private long next;
            private final long end;

            KeyReader(int index) {
                next = records * index / parallelism;
                end = records * (index + 1) / parallelism;
            }

            @Override
            public void start() {
                Repeated.begin();
            }

            @Override
            public InputStatus pollNext(ReaderOutput<Integer> output) {
                for (int left = RECORDS_PER_POLL; left > 0 && next < end; left--) {
                    output.collect((int) (next++ * STRIDE % keys));
                }
                return next < end ? InputStatus.MORE_AVAILABLE : InputStatus.END_OF_INPUT;
            }

            @Override
            public CompletableFuture<Void> isAvailable() {
                return CompletableFuture.completedFuture(null);
            }
        }
    }

    /** Counts what comes. */
    private static final class Total implements Sink<Long> {
        @Override
        public SinkWriter<Long> createWriter(WriterInitContext context) {
            return new SinkWriter<>() {
                private long records;

                @Override
                public void write(Long count, Context context) {
                    records++;
                }

                @Override
                public void flush(boolean endOfInput) {
                    if (endOfInput) {
                        Repeated.end(records, 0);
                    }
                }

                @Override
                public void close() {}
            };
        }
    }

    private static final int RECORDS_PER_POLL = 64;

    /** Coprime to the numbers of keys that are asked for: far from key to key, and all come. */
    static final long STRIDE = 7_368_787;
}
