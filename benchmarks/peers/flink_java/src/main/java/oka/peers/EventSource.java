package oka.peers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;

/** The rows of a file of Arrow: of p tasks, task i has the batches i, i + p and so on. */
final class EventSource extends UnsplitSource<RowData> {
    private final String path;
    private final String[] columns;
    private final int[] times;

    /** Of the columns, those at {@code times} are milliseconds since 1970. */
    EventSource(String path, String[] columns, int[] times) {
        this.path = path;
        this.columns = columns;
        this.times = times;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<RowData, None> createReader(SourceReaderContext context) {
        int tasks = context.currentParallelism();
        return new EventReader(this, context.getIndexOfSubtask(), tasks);
    }

    private static final class EventReader extends UnsplitSource.Reader<RowData> {
        private final EventSource source;
        private final int tasks;
        private final RootAllocator allocator = new RootAllocator();
        private ArrowFileReader file;
        private VectorSchemaRoot batch;
        private FieldVector[] vectors;
        private int nextBatch;
        private int row;
        private int rows;

        EventReader(EventSource source, int index, int tasks) {
            this.source = source;
            this.tasks = tasks;
            this.nextBatch = index;
        }

        @Override
        public void start() {
            Repeated.begin();
            try {
                file = new ArrowFileReader(FileChannel.open(Path.of(source.path)), allocator);
                batch = file.getVectorSchemaRoot();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            vectors = Arrays.stream(source.columns).map(batch::getVector).toArray(FieldVector[]::new);
        }

        @Override
        public InputStatus pollNext(ReaderOutput<RowData> output) throws IOException {
            if (row == rows) {
                var blocks = file.getRecordBlocks();
                if (nextBatch >= blocks.size()) {
                    return InputStatus.END_OF_INPUT;
                }
                file.loadRecordBatch(blocks.get(nextBatch));
                nextBatch += tasks;
                row = 0;
                rows = batch.getRowCount();
            }
            int end = Math.min(rows, row + ROWS_PER_POLL);
            for (; row < end; row++) {
                output.collect(rowData());
            }
            return InputStatus.MORE_AVAILABLE;
        }

        private RowData rowData() {
            GenericRowData result = new GenericRowData(vectors.length);
            for (int column = 0; column < vectors.length; column++) {
                FieldVector vector = vectors[column];
                result.setField(
                        column,
                        vector instanceof VarCharVector texts
                                ? StringData.fromBytes(texts.get(row))
                                : (Object) ((BigIntVector) vector).get(row));
            }
            for (int column : source.times) {
                result.setField(column, TimestampData.fromEpochMillis(result.getLong(column)));
            }
            return result;
        }

        @Override
        public void close() throws IOException {
            if (file != null) {
                file.close();
            }
            allocator.close();
        }
    }

    /** Few enough that the task looks at its mailbox often. */
    private static final int ROWS_PER_POLL = 64;
}
