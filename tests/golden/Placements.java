// Prints where Apache Kafka places replicas: one JSON object for each shape and start.
//
//     java -cp "LIBS/*" tests/golden/Placements.java

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

public class Placements {
    private static final String[][] CLUSTERS = {
        {null},
        {null, null, null},
        {null, null, null, null, null, null, null},
        {"a", "b", "c"},
        {"a", "a", "b"},
        {"a", "b", "b", "a", "c", "c"},
        {"c", "a", "b", "a", "a", "b", "c"},
        {"a", "a", "a", "a"},
        {"b", "a", "b", "a", "b", "b", "b", "b", "c"},
    };

    public static void main(String[] arguments) {
        for (String[] racks : CLUSTERS) {
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (int index = 0; index < racks.length; index++) {
                brokers.add(new BrokerMetadata(3 * index + 1, Optional.ofNullable(racks[index])));
            }
            for (int replicas = 1; replicas <= Math.min(racks.length, 5); replicas++) {
                for (int start = 0; start < racks.length; start += 2) {
                    for (int first : new int[] {-1, 4}) {
                        print(racks, replicas, start, first, AdminUtils.assignReplicasToBrokers(
                            brokers, 3 * racks.length, replicas, start, first));
                    }
                }
            }
        }
    }

    private static void print(
        String[] racks, int replicas, int start, int first, Map<Integer, List<Integer>> placed
    ) {
        StringBuilder shown = new StringBuilder();
        for (String rack : racks) {
            shown.append(shown.length() == 0 ? "" : ",");
            shown.append(rack == null ? "null" : "\"" + rack + "\"");
        }
        List<List<Integer>> ordered = new ArrayList<>(new TreeMap<>(placed).values());
        System.out.println("{\"racks\":[" + shown + "],\"replicas\":" + replicas + ",\"start\":" + start
            + ",\"first\":" + Math.max(first, 0) + ",\"placed\":" + ordered + "}");
    }
}
