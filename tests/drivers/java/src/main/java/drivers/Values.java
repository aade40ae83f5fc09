package drivers;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;

/** Values between the file's text and Java's types. */
final class Values {
    private static final int LONGEST = 4096;

    private Values() {
    }

    static List<Object> natives(List<String> types, JsonArray values) {
        List<Object> all = new ArrayList<>();
        for (int at = 0; at < values.size(); at++) {
            all.add(of(types.get(at), values.get(at)));
        }
        return all;
    }

    /** The value that an application has. */
    static Object of(String type, JsonElement value) {
        if (value.isJsonNull()) {
            return null;
        }
        if (type.endsWith("[]")) {
            String element = type.substring(0, type.length() - 2);
            List<Object> items = new ArrayList<>();
            value.getAsJsonArray().forEach(item -> items.add(of(element, item)));
            return element.equals("text") ? items.toArray(new String[0]) : items.toArray(new Integer[0]);
        }
        String text = value.isJsonObject()
            ? value.getAsJsonObject().get("repeat").getAsString().repeat(value.getAsJsonObject().get("times").getAsInt())
            : value.getAsString();
        return switch (type) {
            case "int4" -> Integer.valueOf(text);
            case "int8" -> Long.valueOf(text);
            case "numeric" -> new BigDecimal(text);
            case "float4" -> Float.valueOf(text);
            case "float8" -> Double.valueOf(text);
            case "bool" -> Boolean.valueOf(text);
            case "date" -> LocalDate.parse(text);
            case "timestamp" -> LocalDateTime.parse(text);
            case "timestamptz" -> OffsetDateTime.parse(text);
            case "uuid" -> UUID.fromString(text);
            case "bytea" -> HexFormat.of().parseHex(text);
            default -> text;
        };
    }

    static List<Object> shownAll(List<Object> row) {
        return row.stream().map(Values::shown).toList();
    }

    /** The name of a value's type, and its text. */
    static Object shown(Object value) {
        if (value == null) {
            return null;
        }
        if (value instanceof Object[] items) {
            return List.of("list", shownAll(Arrays.asList(items)));
        }
        String text = value.toString();
        if (value instanceof byte[] bytes) {
            text = HexFormat.of().formatHex(bytes);
        } else if (value instanceof BigDecimal number) {
            text = number.toPlainString();
        } else if (value instanceof OffsetDateTime moment) {
            text = moment.toInstant().toString();
        }
        return List.of(value.getClass().getSimpleName(), shortened(text));
    }

    private static String shortened(String text) {
        if (text.length() <= LONGEST) {
            return text;
        }
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            return "sha256:" + HexFormat.of().formatHex(digest.digest(text.getBytes(StandardCharsets.UTF_8)));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The SQLSTATE of an error, or of one of its causes. */
    static String code(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException known && known.getSQLState() != null) {
                return known.getSQLState();
            }
        }
        return "client";
    }
}
