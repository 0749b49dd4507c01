package oka.peers;

import java.util.List;
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
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;

/**
 * The connector {@code results}: counts the rows that are left, and drops them.
 *
 * <p>Where they have a column {@code total}, it adds that up.
 */
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
        List<String> columns = DataType.getFieldNames(context.getPhysicalRowDataType());
        return new Results(columns.indexOf("total"));
    }

    private static final class Results implements DynamicTableSink {
        private final int total;

        Results(int total) {
            this.total = total;
        }

        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return requested;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new Counted(total));
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

    /** Counts rows; {@code total} is the column that is added up, or -1. */
    static final class Counted implements Sink<RowData> {
        private final int total;

        Counted(int total) {
            this.total = total;
        }

        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new Writer(total);
        }
    }

    private static final class Writer implements SinkWriter<RowData> {
        private final int column;
        private long rows;
        private long total;

        Writer(int column) {
            this.column = column;
        }

        @Override
        public void write(RowData row, Context context) {
            RowKind kind = row.getRowKind();
            boolean comes = kind == RowKind.INSERT || kind == RowKind.UPDATE_AFTER;
            rows += comes ? 1 : -1;
            if (column >= 0) {
                total += comes ? row.getLong(column) : -row.getLong(column);
            }
        }

        @Override
        public void flush(boolean endOfInput) {
            if (endOfInput) {
                Repeated.end(rows, total);
            }
        }

        @Override
        public void close() {}
    }
}
