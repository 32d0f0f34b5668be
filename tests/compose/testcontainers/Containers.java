import java.util.function.Supplier;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts a broker in a network by the named class, and stops it at the end of the input. */
@SuppressWarnings("deprecation")
public final class Containers {
    private static final String LISTENER = "kafka:19092";
    private static final DockerImageName IMAGE =
        DockerImageName.parse("odradek:7.9.0").asCompatibleSubstituteFor("apache/kafka");
    private static final DockerImageName CONFLUENT =
        DockerImageName.parse("odradek:7.9.0").asCompatibleSubstituteFor("confluentinc/cp-kafka");

    private record Started(GenericContainer<?> container, Supplier<String> bootstrap) {}

    public static void main(String[] arguments) throws Exception {
        try (Network network = Network.newNetwork()) {
            var started = create(arguments[0]);
            try (var container = started.container().withNetwork(network)) {
                long began = System.nanoTime();
                container.start();
                long readyMs = (System.nanoTime() - began) / 1_000_000;
                String bootstrap = started.bootstrap().get().replace("PLAINTEXT://", "");
                System.out.println(bootstrap + " " + network.getId() + " " + readyMs);
                System.in.read();
            }
        }
    }

    private static Started create(String name) {
        switch (name) {
            case "apache" -> {
                var kafka = new org.testcontainers.kafka.KafkaContainer(IMAGE).withListener(LISTENER);
                return new Started(kafka, kafka::getBootstrapServers);
            }
            case "confluent" -> {
                var kafka = new ConfluentKafkaContainer(CONFLUENT).withListener(LISTENER);
                return new Started(kafka, kafka::getBootstrapServers);
            }
            case "zookeeper", "kraft" -> {
                var kafka = new org.testcontainers.containers.KafkaContainer(CONFLUENT);
                kafka.withListener(() -> LISTENER);
                return new Started(name.equals("kraft") ? kafka.withKraft() : kafka, kafka::getBootstrapServers);
            }
            default -> throw new IllegalArgumentException(name);
        }
    }
}
