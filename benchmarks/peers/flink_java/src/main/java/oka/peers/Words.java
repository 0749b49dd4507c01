package oka.peers;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;

/** The words of one source task, uniformly drawn, and how many of each there were. */
final class Words {
    private final Settings settings;
    private final int index;
    private final SplittableRandom random;
    private final String[] dictionary;
    private final long[] emitted;

    Words(Settings settings, int index) {
        this.settings = settings;
        this.index = index;
        // Far apart seeds: each task has a sequence of its own.
        this.random = new SplittableRandom(settings.seed() * SEED_STRIDE + index);
        this.dictionary = settings.dictionary();
        this.emitted = new long[dictionary.length];
    }

    String draw() {
        int word = random.nextInt(dictionary.length);
        emitted[word]++;
        return dictionary[word];
    }

    /** Leave what was emitted, when everything has been. */
    void write() {
        Map<String, Long> counts = new LinkedHashMap<>();
        for (int word = 0; word < dictionary.length; word++) {
            counts.put(dictionary[word], emitted[word]);
        }
        settings.write("source-" + index + ".json", Map.of("counts", counts));
    }

    private static final long SEED_STRIDE = 1_000_003;
}
