import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts a broker with Testcontainers, produces three records and consumes them. */
public final class Greetings {
    private static final DockerImageName IMAGE =
        DockerImageName.parse("odradek:7.9.0").asCompatibleSubstituteFor("apache/kafka");

    public static void main(String[] arguments) throws Exception {
        try (var kafka = new KafkaContainer(IMAGE)) {
            kafka.start();
            greet(kafka.getBootstrapServers());
        }
    }

    private static void greet(String bootstrap) throws Exception {
        Map<String, Object> sending = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer())) {
            for (String word : List.of("hello", "from", "Odradek")) {
                producer.send(new ProducerRecord<>("greetings", word)).get();
            }
        }
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "examples-java",
            "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("greetings"));
            for (int seen = 0; seen < 3; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.offset() + " " + record.value());
                    seen++;
                }
            }
        }
    }
}
