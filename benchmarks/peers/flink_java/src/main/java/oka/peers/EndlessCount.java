package oka.peers;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * The running count of many keys on a cluster, until that ends: source, state and files go on from
 * a checkpoint. One count in a thousand is written, to a file for each checkpoint.
 */
public final class EndlessCount {
    private EndlessCount() {}

    /** Submit it, with Flink's parts alone: the settings are in JSON. */
    public static void main(String[] arguments) throws Exception {
        JsonNode settings = new ObjectMapper().readTree(arguments[0]);
        Configuration configuration = new Configuration();
        settings.required("configuration")
                .properties()
                .forEach(each -> configuration.setString(each.getKey(), each.getValue().asText()));
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createRemoteEnvironment(
                        "127.0.0.1", settings.required("port").intValue(), configuration);
        int keys = settings.required("keys").intValue();
        DataGeneratorSource<Integer> source =
                new DataGeneratorSource<>(
                        index -> (int) (index * KeyedCount.STRIDE % keys), RECORDS, Types.INT);
        FileSink<Long> files =
                FileSink.forRowFormat(
                                new Path(settings.required("output").textValue()),
                                new SimpleStringEncoder<Long>())
                        .withBucketAssigner(new BasePathBucketAssigner<>())
                        .withRollingPolicy(OnCheckpointRollingPolicy.build())
                        .build();
        environment
                .fromSource(source, WatermarkStrategy.noWatermarks(), "keys")
                .keyBy(key -> key)
                .process(new KeyedCount.Count())
                .filter(new OneInAThousand())
                .sinkTo(files);
        environment.executeAsync("count");
    }

    private static final class OneInAThousand implements FilterFunction<Long> {
        private int seen;

        @Override
        public boolean filter(Long count) {
            return seen++ % 1000 == 0;
        }
    }

    /** More than it can count in a day. */
    private static final long RECORDS = 1_000_000_000_000L;
}
