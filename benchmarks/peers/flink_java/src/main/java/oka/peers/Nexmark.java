package oka.peers;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * A query of Nexmark by Flink SQL in one JVM, over files of events.
 *
 * <p>It runs as often as the settings say, so that the last run, which is told of, is of compiled
 * code. Its time is from the first source's start to the last sink's end.
 */
public final class Nexmark {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** Of the run at work: when its first source began, and what the JVM's processors had done. */
    private static final AtomicLong BEGAN = new AtomicLong();

    private static final AtomicLong CPU_BEFORE = new AtomicLong();
    private static final AtomicLong ENDED = new AtomicLong();

    /** Rows that came, less those that were taken back. */
    private static final AtomicLong ROWS = new AtomicLong();

    private Nexmark() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode settings = JSON.readTree(arguments[0]);
        for (int run = settings.required("runs").intValue(); run > 0; run--) {
            BEGAN.set(0);
            ROWS.set(0);
            execute(settings);
        }
        Map<String, Object> told =
                Map.of(
                        "seconds", (ENDED.get() - BEGAN.get()) / 1e9,
                        "cpu_seconds", (SYSTEM.getProcessCpuTime() - CPU_BEFORE.get()) / 1e9,
                        "rows", ROWS.get());
        Path result = Path.of(settings.required("result").textValue());
        Files.writeString(result, JSON.writeValueAsString(told));
    }

    private static void execute(JsonNode settings) throws Exception {
        Configuration configuration = new Configuration();
        settings.required("configuration")
                .properties()
                .forEach(each -> configuration.setString(each.getKey(), each.getValue().asText()));
        int parallelism = settings.required("parallelism").intValue();
        configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism);
        StreamTableEnvironment tables =
                StreamTableEnvironment.create(
                        StreamExecutionEnvironment.createLocalEnvironment(
                                parallelism, configuration));
        settings.required("statements").forEach(each -> tables.executeSql(each.textValue()));
        Table results = tables.sqlQuery(settings.required("query").textValue());
        Schema columns =
                Schema.newBuilder()
                        .fromRowDataType(results.getResolvedSchema().toSinkRowDataType())
                        .build();
        results.insertInto(TableDescriptor.forConnector("results").schema(columns).build())
                .execute()
                .await();
    }

    /** A source has begun. */
    static void begin() {
        if (BEGAN.compareAndSet(0, System.nanoTime())) {
            CPU_BEFORE.set(SYSTEM.getProcessCpuTime());
        }
    }

    /** A sink has had all its rows. */
    static void end(long rows) {
        ROWS.addAndGet(rows);
        ENDED.accumulateAndGet(System.nanoTime(), Math::max);
    }
}
