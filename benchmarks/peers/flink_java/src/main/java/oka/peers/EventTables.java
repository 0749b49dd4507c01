package oka.peers;

import java.util.Set;
import java.util.stream.IntStream;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.Projection;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.DataType;

/** The connector {@code events}: a file of Arrow, of which those columns are read that are used. */
public final class EventTables implements DynamicTableSourceFactory {
    private static final ConfigOption<String> PATH =
            ConfigOptions.key("path").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "events";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        var helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new Events(helper.getOptions().get(PATH), context.getPhysicalRowDataType());
    }

    private static final class Events implements ScanTableSource, SupportsProjectionPushDown {
        private final String path;
        private DataType columns;

        Events(String path, DataType columns) {
            this.path = path;
            this.columns = columns;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            var names = DataType.getFieldNames(columns);
            var isTime =
                    DataType.getFieldDataTypes(columns).stream()
                            .map(each -> each.getLogicalType().getTypeRoot().name())
                            .map(root -> root.startsWith("TIMESTAMP"))
                            .toList();
            int[] times = IntStream.range(0, names.size()).filter(isTime::get).toArray();
            return SourceProvider.of(
                    new EventSource(path, names.toArray(String[]::new), times));
        }

        @Override
        public boolean supportsNestedProjection() {
            return false;
        }

        @Override
        public void applyProjection(int[][] fields, DataType projected) {
            columns = Projection.of(fields).project(columns);
        }

        @Override
        public DynamicTableSource copy() {
            return new Events(path, columns);
        }

        @Override
        public String asSummaryString() {
            return "events of " + path;
        }
    }
}
