package oka.peers;

import java.util.Set;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.types.RowKind;

/** The connector {@code results}: counts the rows that are left, and drops them. */
public final class ResultTables implements DynamicTableSinkFactory {
    @Override
    public String factoryIdentifier() {
        return "results";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new Results();
    }

    private static final class Results implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return requested;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new Counted());
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "results";
        }
    }

    private static final class Counted implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new Writer();
        }
    }

    private static final class Writer implements SinkWriter<RowData> {
        private long rows;

        @Override
        public void write(RowData row, Context context) {
            RowKind kind = row.getRowKind();
            boolean comes = kind == RowKind.INSERT || kind == RowKind.UPDATE_AFTER;
            rows += comes ? 1 : -1;
        }

        @Override
        public void flush(boolean endOfInput) {
            if (endOfInput) {
                Repeated.end(rows);
            }
        }

        @Override
        public void close() {}
    }
}
