package oka.peers;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** A query by Flink SQL, over files of events. */
public final class Query {
    private Query() {}

    public static void main(String[] arguments) throws Exception {
        Repeated.run(arguments[0], Query::execute);
    }

    private static void execute(JsonNode settings, Configuration configuration) throws Exception {
        StreamTableEnvironment tables =
                StreamTableEnvironment.create(
                        StreamExecutionEnvironment.createLocalEnvironment(configuration));
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
}
