import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;

/** Prints name: [type, default, rule, importance, update mode, internal] of all settings as JSON. */
public class ConfigDefinitions {
    static String quoted(Object value) {
        return value == null ? "null" : "\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    static String table(Map<String, ConfigKey> keys, Map<String, String> modes) {
        StringJoiner rows = new StringJoiner(",\n", "{\n", "\n}");
        for (ConfigKey key : new TreeMap<>(keys).values()) {
            String text = ConfigDef.convertToString(key.defaultValue, key.type);
            rows.add(quoted(key.name) + ": [" + quoted(key.type) + ", " + quoted(text) + ", "
                + quoted(key.validator) + ", " + quoted(key.importance) + ", "
                + quoted(modes.getOrDefault(key.name, "read-only")) + ", " + key.internalConfig + "]");
        }
        return rows.toString();
    }

    public static void main(String[] arguments) {
        Map<String, String> modes = kafka.server.DynamicBrokerConfig$.MODULE$.dynamicConfigUpdateModes();
        System.out.println("{\"broker\": " + table(kafka.server.KafkaConfig.configDef().configKeys(), modes)
            + ", \"dynamic\": " + table(kafka.server.DynamicConfig.Broker$.MODULE$.configKeys(), modes)
            + ", \"topic\": " + table(org.apache.kafka.storage.internals.log.LogConfig.configKeys(), new HashMap<>())
            + "}");
    }
}
