package oka.peers;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * A job that runs several times in one JVM, so that the last run, which is told of, is of compiled
 * code.
 *
 * <p>Its time is from the first source's start to the last sink's end; its processors' time has that
 * of the processes that the JVM started, which are Python's, from the one to the other.
 */
public final class Repeated {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** Of the run at work: when its first source began, and what the JVM's processors had done. */
    private static final AtomicLong BEGAN = new AtomicLong();

    private static final AtomicLong CPU_BEFORE = new AtomicLong();
    private static final AtomicLong ENDED = new AtomicLong();
    private static final AtomicLong OTHERS_BEFORE = new AtomicLong();
    private static final AtomicLong OTHERS_AFTER = new AtomicLong();

    /** Rows that came, less those that were taken back. */
    private static final AtomicLong ROWS = new AtomicLong();

    /** The sum of their totals, where they have one. */
    private static final AtomicLong TOTAL = new AtomicLong();

    private Repeated() {}

    /** What runs, with all of the settings, and Flink's own of them. */
    interface Job {
        void execute(JsonNode settings, Configuration configuration) throws Exception;
    }

    /** Run it as often as the settings, in JSON, say, and tell of the last run in a file. */
    static void run(String text, Job job) throws Exception {
        JsonNode settings = JSON.readTree(text);
        Configuration configuration = new Configuration();
        settings.required("configuration")
                .properties()
                .forEach(each -> configuration.setString(each.getKey(), each.getValue().asText()));
        configuration.set(
                CoreOptions.DEFAULT_PARALLELISM, settings.required("parallelism").intValue());
        for (int run = settings.required("runs").intValue(); run > 0; run--) {
            reset();
            job.execute(settings, configuration);
        }
        Files.writeString(Path.of(settings.required("result").textValue()), told());
    }

    /** A run is about to begin. */
    public static void reset() {
        BEGAN.set(0);
        ROWS.set(0);
        TOTAL.set(0);
    }

    /** What the last run took and came to, in JSON. */
    public static String told() throws IOException {
        long others = OTHERS_AFTER.get() - OTHERS_BEFORE.get();
        long cpu = SYSTEM.getProcessCpuTime() - CPU_BEFORE.get() + others;
        return JSON.writeValueAsString(
                Map.of(
                        "seconds", (ENDED.get() - BEGAN.get()) / 1e9,
                        "cpu_seconds", cpu / 1e9,
                        "rows", ROWS.get(),
                        "total", TOTAL.get()));
    }

    /** A source has begun. */
    static void begin() {
        if (BEGAN.compareAndSet(0, System.nanoTime())) {
            CPU_BEFORE.set(SYSTEM.getProcessCpuTime());
            OTHERS_BEFORE.set(others());
        }
    }

    /** A sink has had all its rows. */
    static void end(long rows, long total) {
        ROWS.addAndGet(rows);
        TOTAL.addAndGet(total);
        ENDED.accumulateAndGet(System.nanoTime(), Math::max);
        OTHERS_AFTER.set(others());
    }

    /** What the processors have done for the processes that this one started and that live. */
    private static long others() {
        return ProcessHandle.current()
                .descendants()
                .map(each -> each.info().totalCpuDuration().orElse(Duration.ZERO))
                .mapToLong(Duration::toNanos)
                .sum();
    }
}
