package drivers;

import drivers.Main.Result;
import drivers.Main.Step;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import org.postgresql.PGConnection;

/** pgjdbc: statements are prepared from their fifth execution on, and results come in binary then. */
final class WithJdbc implements Main.Driver {
    private static final Map<String, Integer> OIDS = Map.ofEntries(Map.entry("bool", 16), Map.entry("bytea", 17), Map.entry("int8", 20),
        Map.entry("int4", 23), Map.entry("text", 25), Map.entry("float4", 700), Map.entry("float8", 701), Map.entry("date", 1082),
        Map.entry("timestamp", 1114), Map.entry("timestamptz", 1184), Map.entry("numeric", 1700), Map.entry("uuid", 2950),
        Map.entry("_int4", 1007), Map.entry("_text", 1009));

    private final Connection connection;
    private final Map<String, Savepoint> savepoints = new HashMap<>();

    WithJdbc(String url, String form) throws SQLException {
        connection = DriverManager.getConnection(switch (form) {
            case "jdbc-rewrites" -> url + "&reWriteBatchedInserts=true";
            case "jdbc-simple" -> url + "&preferQueryMode=simple";
            default -> url;
        });
    }

    /** The types of a table's columns, as DatabaseMetaData has them. */
    static Map<String, String> catalog(String url, String table) throws SQLException {
        Map<String, String> types = new HashMap<>();
        try (Connection connection = DriverManager.getConnection(url);
            ResultSet columns = connection.getMetaData().getColumns(null, null, table, null)) {
            while (columns.next()) {
                types.put(columns.getString("COLUMN_NAME"), columns.getString("TYPE_NAME"));
            }
        }
        return types;
    }

    @Override
    public void close() throws SQLException {
        connection.close();
    }

    @Override
    public boolean isAbsent(Step step) {
        return false;
    }

    @Override
    public Result run(Step step, List<Object> values, List<List<Object>> batch) throws SQLException {
        String sql = step.text("sql");
        switch (step.text("do")) {
            case "begin" -> connection.setAutoCommit(false);
            case "commit" -> {
                connection.commit();
                connection.setAutoCommit(true);
            }
            case "rollback" -> {
                connection.rollback();
                connection.setAutoCommit(true);
            }
            case "savepoint" -> savepoints.put(sql, connection.setSavepoint(sql));
            case "release" -> connection.releaseSavepoint(savepoints.remove(sql));
            case "back" -> connection.rollback(savepoints.get(sql));
            case "many" -> {
                return many(sql, batch);
            }
            case "together", "again" -> {
                return again(sql, batch);
            }
            case "cursor" -> {
                return cursor(sql, values);
            }
            case "copy_in" -> {
                return copiedIn(sql, step.text("text"));
            }
            case "copy_out" -> {
                return copiedOut(sql);
            }
            case "cancel" -> {
                return cancelled(sql, values);
            }
            default -> {
                return execute(step, sql, values);
            }
        }
        return Result.of(0);
    }

    /** Java's marks of parameters. */
    private PreparedStatement prepared(String sql) throws SQLException {
        return connection.prepareStatement(sql.replaceAll("\\$\\d+", "?"));
    }

    private void bind(PreparedStatement statement, List<Object> values) throws SQLException {
        for (int at = 0; at < values.size(); at++) {
            Object value = values.get(at);
            if (value instanceof Object[] items) {
                value = connection.createArrayOf(items instanceof String[] ? "text" : "int4", items);
            }
            statement.setObject(at + 1, value);
        }
    }

    private Result execute(Step step, String sql, List<Object> values) throws SQLException {
        try (PreparedStatement statement = prepared(sql)) {
            bind(statement, values);
            return step.givesRows() ? rows(statement.executeQuery()) : Result.of(statement.executeUpdate());
        }
    }

    private Result rows(ResultSet found) throws SQLException {
        ResultSetMetaData about = found.getMetaData();
        List<Integer> oids = new ArrayList<>();
        for (int at = 1; at <= about.getColumnCount(); at++) {
            oids.add(OIDS.getOrDefault(about.getColumnTypeName(at), 0));
        }
        List<List<Object>> rows = new ArrayList<>();
        while (found.next()) {
            List<Object> row = new ArrayList<>();
            for (int at = 1; at <= about.getColumnCount(); at++) {
                row.add(value(found, at, about.getColumnTypeName(at)));
            }
            rows.add(row);
        }
        return new Result(rows, oids, null);
    }

    private static Object value(ResultSet found, int at, String type) throws SQLException {
        return switch (type) {
            case "date" -> found.getObject(at, LocalDate.class);
            case "timestamp" -> found.getObject(at, LocalDateTime.class);
            case "timestamptz" -> found.getObject(at, OffsetDateTime.class);
            case "_int4", "_text" -> found.getArray(at) == null ? null : found.getArray(at).getArray();
            default -> found.getObject(at);
        };
    }

    private Result many(String sql, List<List<Object>> batch) throws SQLException {
        try (PreparedStatement statement = prepared(sql)) {
            for (List<Object> values : batch) {
                bind(statement, values);
                statement.addBatch();
            }
            // A batch that was rewritten says of each part that it succeeded, and not how many rows.
            return Result.of(Arrays.stream(statement.executeBatch()).map(count -> count == Statement.SUCCESS_NO_INFO ? 1 : count).sum());
        }
    }

    private Result again(String sql, List<List<Object>> batch) throws SQLException {
        try (PreparedStatement statement = prepared(sql)) {
            List<List<Object>> rows = new ArrayList<>();
            List<Integer> oids = List.of();
            for (List<Object> values : batch) {
                bind(statement, values);
                Result result = rows(statement.executeQuery());
                rows.addAll(result.rows());
                oids = result.oids();
            }
            return new Result(rows, oids, null);
        }
    }

    private Result cursor(String sql, List<Object> values) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = prepared(sql)) {
            statement.setFetchSize(2);
            bind(statement, values);
            return rows(statement.executeQuery());
        } finally {
            connection.commit();
            connection.setAutoCommit(true);
        }
    }

    private Result copiedIn(String sql, String text) throws SQLException {
        try {
            return Result.of(connection.unwrap(PGConnection.class).getCopyAPI().copyIn(sql, new StringReader(text)));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private Result copiedOut(String sql) throws SQLException {
        try {
            StringWriter out = new StringWriter();
            connection.unwrap(PGConnection.class).getCopyAPI().copyOut(sql, out);
            return Result.of(List.of(List.of(out.toString())));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private Result cancelled(String sql, List<Object> values) throws SQLException {
        Timer timer = new Timer();
        try (PreparedStatement statement = prepared(sql)) {
            bind(statement, values);
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException error) {
                        throw new IllegalStateException(error);
                    }
                }
            }, 300);
            return rows(statement.executeQuery());
        } finally {
            timer.cancel();
        }
    }
}
