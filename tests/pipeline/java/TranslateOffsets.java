import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * What MirrorMaker 2's own client reads from a target cluster.
 *
 * TranslateOffsets ADDRESS SOURCE_ALIAS GROUP prints
 *   offset TOPIC PARTITION OFFSET METADATA     one line per checkpoint of the group
 *   upstream [ALIASES]
 *   hops N
 *   checkpoints [TOPICS]
 */
public class TranslateOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0]);
        Map<TopicPartition, OffsetAndMetadata> found = RemoteClusterUtils.translateOffsets(
            properties, arguments[1], arguments[2], Duration.ofSeconds(30));
        Map<String, OffsetAndMetadata> sorted = new TreeMap<>();
        found.forEach((place, offset) -> sorted.put(place.topic() + " " + place.partition(), offset));
        sorted.forEach((place, offset) -> System.out.println(
            "offset " + place + " " + offset.offset() + " " + offset.metadata()));
        System.out.println("upstream " + RemoteClusterUtils.upstreamClusters(properties));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(properties, arguments[1]));
        System.out.println("checkpoints " + RemoteClusterUtils.checkpointTopics(properties));
    }
}
