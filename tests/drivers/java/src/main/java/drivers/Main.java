package drivers;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.FileReader;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Runs the scenarios with pgjdbc, or with Hibernate on it (tests/drivers/scenarios.py says what is in the file, and what is
 * printed), or prints what the catalog shows of a table. Usage: Main jdbc|jdbc-rewrites|jdbc-simple|hibernate|catalog CONFIG
 */
public final class Main {
    /** What came back: rows and the OIDs of their types, or a count. */
    record Result(List<List<Object>> rows, List<Integer> oids, Long count) {
        static Result of(long count) {
            return new Result(null, List.of(), count);
        }

        static Result of(List<List<Object>> rows) {
            return new Result(rows, List.of(), null);
        }
    }

    /** One thing that a driver does. */
    record Step(String scenario, JsonObject of) {
        String name() {
            return scenario + "/" + text("name");
        }

        String text(String field) {
            return of.get(field).getAsString();
        }

        boolean givesRows() {
            return !of.get("rows").isJsonNull();
        }

        List<String> types(String field) {
            List<String> types = new ArrayList<>();
            of.getAsJsonArray(field).forEach(type -> types.add(type.getAsString()));
            return types;
        }
    }

    /** A driver, or what stands on one. */
    interface Driver extends AutoCloseable {
        Result run(Step step, List<Object> values, List<List<Object>> batch) throws Exception;

        boolean isAbsent(Step step);
    }

    public static void main(String[] arguments) throws Exception {
        JsonObject config = new Gson().fromJson(new FileReader(arguments[1]), JsonObject.class);
        String url = config.get("inside").isJsonNull() ? "jdbc:postgresql://127.0.0.1:" + config.get("tcp").getAsInt() + "/postgres?user=postgres"
            : inside(config.getAsJsonObject("inside"));
        if (arguments[0].equals("catalog")) {
            System.out.println(new Gson().toJson(WithJdbc.catalog(url, "person")));
            return;
        }
        try (Driver driver = arguments[0].equals("hibernate") ? new WithHibernate(url) : new WithJdbc(url, arguments[0])) {
            for (JsonElement scenario : config.getAsJsonArray("scenarios")) {
                String name = scenario.getAsJsonObject().get("name").getAsString();
                for (JsonElement step : scenario.getAsJsonObject().getAsJsonArray("steps")) {
                    step(driver, new Step(name, step.getAsJsonObject()));
                }
            }
        }
    }

    /** A URL that leads through the package of bindings/java. */
    private static String inside(JsonObject options) {
        StringBuilder url = new StringBuilder("jdbc:postgresql://localhost/postgres?user=postgres&socketFactory=org.pgseal.PgsealSocketFactory");
        options.asMap().forEach((name, value) -> url.append('&').append(name.equals("server") ? "socketFactoryArg" : "pgseal." + name)
            .append('=').append(URLEncoder.encode(value.getAsString(), StandardCharsets.UTF_8)));
        return url.toString();
    }

    private static void step(Driver driver, Step step) {
        if (driver.isAbsent(step)) {
            return;
        }
        List<String> types = step.types("types");
        List<List<Object>> batch = new ArrayList<>();
        step.of().getAsJsonArray("batch").forEach(row -> batch.add(Values.natives(types, row.getAsJsonArray())));
        Map<String, Object> said = new TreeMap<>();
        said.put("step", step.name());
        try {
            Result result = driver.run(step, Values.natives(types, step.of().getAsJsonArray("values")), batch);
            if (step.givesRows()) {
                said.put("rows", result.rows().stream().map(Values::shownAll).toList());
                said.put("oids", result.oids());
            } else {
                said.put("count", result.count());
            }
        } catch (Exception error) {
            said.put("error", Values.code(error));
            said.put("message", String.valueOf(error.getMessage()));
        }
        System.out.println(new Gson().newBuilder().serializeNulls().create().toJson(said));
    }
}
