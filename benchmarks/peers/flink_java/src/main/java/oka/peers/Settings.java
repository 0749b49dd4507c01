package oka.peers;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Base64;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** One run, as {@code ../program.py} describes it, with the dictionary of its words. */
public record Settings(
        String folder,
        int parallelism,
        long lengthNanos,
        long warmupNanos,
        double rate,
        long seed,
        String[] dictionary)
        implements Serializable {

    private static final ObjectMapper JSON = new ObjectMapper();

    /** The settings in a JSON text; the rate is 0 where words come as fast as possible. */
    public static Settings of(String text) throws IOException {
        JsonNode json = JSON.readTree(text);
        return new Settings(
                json.required("folder").textValue(),
                json.required("parallelism").intValue(),
                (long) (json.required("seconds").doubleValue() * 1e9),
                (long) (json.required("warmup").doubleValue() * 1e9),
                json.required("rate").asDouble(0),
                json.required("seed").longValue(),
                JSON.convertValue(json.required("dictionary"), String[].class));
    }

    /** Leave an empty file in the folder of the run. */
    void mark(String name) {
        try {
            Files.createFile(Path.of(folder, name));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Leave a file in the folder of the run, whole or not at all. */
    void write(String name, Map<String, ?> content) {
        Path path = Path.of(folder, name);
        Path partial = Path.of(folder, name + ".partial");
        try {
            JSON.writeValue(partial.toFile(), content);
            Files.move(partial, path, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** So many nanoseconds each, as the sinks' files hold them. */
    static String base64(long[] values, int count) {
        ByteBuffer bytes = ByteBuffer.allocate(count * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asLongBuffer().put(values, 0, count);
        return Base64.getEncoder().encodeToString(bytes.array());
    }
}
