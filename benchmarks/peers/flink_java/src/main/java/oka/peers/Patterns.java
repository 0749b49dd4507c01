package oka.peers;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.util.Collector;

/** Patterns of Flink CEP, over a file of events; the rows are the sums of a match's amounts. */
public final class Patterns {
    private static final String[] COLUMNS = {"user", "time", "kind", "amount"};

    private Patterns() {}

    public static void main(String[] arguments) throws Exception {
        Repeated.run(arguments[0], Patterns::execute);
    }

    private static void execute(JsonNode settings, Configuration configuration) throws Exception {
        var environment = StreamExecutionEnvironment.createLocalEnvironment(configuration);
        var number = new BigIntType();
        var source = new EventSource(settings.required("path").textValue(), COLUMNS, new int[0]);
        var times =
                WatermarkStrategy.<RowData>forMonotonousTimestamps()
                        .withTimestampAssigner((event, before) -> event.getLong(1));
        var events =
                environment
                        .fromSource(
                                source,
                                times,
                                "events",
                                InternalTypeInfo.ofFields(number, number, number, number))
                        .keyBy(event -> event.getLong(0));
        CEP.pattern(events, pattern(settings.required("pattern").textValue()))
                .process(new Amounts(), InternalTypeInfo.ofFields(number))
                .sinkTo(new ResultTables.Counted(0));
        environment.execute();
    }

    /** As `benchmarks/event_time/patterns.py` has them. */
    private static Pattern<RowData, ?> pattern(String name) {
        Pattern<RowData, RowData> first = Pattern.<RowData>begin("a").where(kind(0));
        Pattern<RowData, RowData> whole =
                switch (name) {
                    case "pattern-then" -> first.followedBy("b").where(kind(1));
                    case "pattern-repeated" ->
                            first.followedBy("b")
                                    .where(kind(1))
                                    .oneOrMore()
                                    .notFollowedBy("c")
                                    .where(kind(2))
                                    .followedBy("d")
                                    .where(kind(3));
                    case "pattern-any" -> first.followedByAny("b").where(kind(1));
                    default -> throw new IllegalArgumentException(name);
                };
        return whole.within(Duration.ofMinutes(1));
    }

    private static SimpleCondition<RowData> kind(long kind) {
        return SimpleCondition.of(event -> event.getLong(2) == kind);
    }

    private static final class Amounts extends PatternProcessFunction<RowData, RowData> {
        @Override
        public void processMatch(
                Map<String, List<RowData>> match, Context context, Collector<RowData> out) {
            long amount = 0;
            for (List<RowData> events : match.values()) {
                for (RowData event : events) {
                    amount += event.getLong(3);
                }
            }
            out.collect(GenericRowData.of(amount));
        }
    }
}
