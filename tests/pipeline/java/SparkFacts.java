import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.spark.sql.SparkSession;

/**
 * Asks Spark's analyser which arguments each function has; a line each: name, least and most
 * arguments, type of the result, kinds of types of each of the first arguments.
 */
public final class SparkFacts {
  private static final int ARGUMENTS_MAX = 8;
  private static final int PLACES_MAX = 4;
  private static final Map<String, String> SAMPLES = new LinkedHashMap<>();
  private static SparkSession spark;

  static {
    SAMPLES.put("string", "STRING");
    SAMPLES.put("int", "INT");
    SAMPLES.put("double", "DOUBLE");
    SAMPLES.put("decimal", "DECIMAL(10,2)");
    SAMPLES.put("boolean", "BOOLEAN");
    SAMPLES.put("date", "DATE");
    SAMPLES.put("timestamp", "TIMESTAMP");
    SAMPLES.put("binary", "BINARY");
    SAMPLES.put("array", "ARRAY<STRING>");
    SAMPLES.put("map", "MAP<STRING, STRING>");
    SAMPLES.put("struct", "STRUCT<a: STRING>");
  }

  private record Outcome(String type, String error) {}

  private static Outcome ask(String name, List<String> arguments) {
    String call = name + "(" + String.join(", ", arguments) + ")";
    try {
      var schema = spark.sql("SELECT " + call + " AS x").schema();
      if (schema.length() != 1) {
        return new Outcome(null, "a generator of several columns");
      }
      return new Outcome(schema.apply(0).dataType().sql(), "");
    } catch (Throwable error) {
      return new Outcome(null, String.valueOf(error.getMessage()));
    }
  }

  private static boolean takes(String name, int count) {
    Outcome outcome = ask(name, Collections.nCopies(count, "NULL"));
    return outcome.type != null || !outcome.error.contains("WRONG_NUM_ARGS");
  }

  private static String line(String name) {
    int least = -1;
    int most = -1;
    for (int count = 0; count <= ARGUMENTS_MAX; count++) {
      if (takes(name, count)) {
        least = least < 0 ? count : least;
        most = count;
      }
    }
    if (least < 0) {
      return String.join("\t", name, "0", "*", "?");
    }
    int width = Math.min(most == ARGUMENTS_MAX ? Math.max(least, 1) : most, PLACES_MAX);
    Map<String, String> first = new LinkedHashMap<>();
    List<String> results = new ArrayList<>();
    TreeSet<String> rest = new TreeSet<>();
    List<String> accepted = new ArrayList<>();
    for (int place = 0; place < width; place++) {
      List<String> kinds = new ArrayList<>();
      for (var sample : SAMPLES.entrySet()) {
        boolean fits = false;
        for (int count = Math.max(place + 1, least); count <= Math.max(width, least); count++) {
          List<String> arguments = new ArrayList<>(Collections.nCopies(count, "NULL"));
          arguments.set(place, "CAST(NULL AS " + sample.getValue() + ")");
          Outcome outcome = ask(name, arguments);
          if (outcome.type != null) {
            results.add(outcome.type);
            if (place == 0) {
              first.put(sample.getValue(), outcome.type);
            } else {
              rest.add(outcome.type);
            }
          }
          fits |= outcome.type != null || !rejects(outcome.error, sample.getValue());
        }
        if (fits) {
          kinds.add(sample.getKey());
        }
      }
      boolean isAny = kinds.isEmpty() || kinds.size() == SAMPLES.size();
      accepted.add(isAny ? "any" : String.join(",", kinds));
    }
    String result = "?";
    TreeSet<String> types = new TreeSet<>(results);
    if (width == 0) {
      Outcome outcome = ask(name, List.of());
      result = outcome.type == null ? "?" : outcome.type;
    } else if (types.size() == 1 && !types.contains("VOID") && results.size() > 1) {
      result = types.first();
    } else if (first.size() > 1
        && first.entrySet().stream().allMatch(one -> same(one.getKey(), one.getValue()))
        && (rest.isEmpty() || rest.equals(new TreeSet<>(List.of("VOID"))))) {
      result = "=";
    }
    List<String> parts = new ArrayList<>();
    parts.add(name);
    parts.add(String.valueOf(least));
    parts.add(most == ARGUMENTS_MAX ? "*" : String.valueOf(most));
    parts.add(result);
    parts.addAll(accepted);
    return String.join("\t", parts);
  }

  /** Whether an error is about the type of an argument; for any other error another value may fit. */
  private static boolean rejects(String error, String type) {
    return error.contains("INVALID_ORDERING_TYPE")
        || (error.contains("DATATYPE_MISMATCH") && error.contains(" has the type \"" + type + "\""));
  }

  private static boolean same(String one, String other) {
    return one.replace(" ", "").equals(other.replace(" ", ""));
  }

  public static void main(String[] arguments) {
    spark =
        SparkSession.builder()
            .master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate();
    spark.sparkContext().setLogLevel("OFF");
    TreeSet<String> names = new TreeSet<>();
    for (var row : spark.sql("SHOW FUNCTIONS").collectAsList()) {
      names.add(row.getString(0));
    }
    for (String name : names) {
      if (name.matches("[a-z_][a-z_0-9]*")) {
        System.out.println("function\t" + line(name));
      }
    }
    for (var row : spark.sql("SET -v").collectAsList()) {
      System.out.println("setting\t" + row.getString(0));
    }
    spark.stop();
  }
}
