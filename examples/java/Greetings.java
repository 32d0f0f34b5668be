import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Produces three records and consumes them with Apache Kafka's own client. */
public final class Greetings {
    private static final String TOPIC = "greetings-java";

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments.length > 0 ? arguments[0] : "127.0.0.1:9092";
        Map<String, Object> sending = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer())) {
            for (String word : List.of("hello", "from", "Odradek")) {
                producer.send(new ProducerRecord<>(TOPIC, 0, null, word)).get();
            }
        }
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "examples-java",
            "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            for (int seen = 0; seen < 3; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.offset() + " " + record.value());
                    seen++;
                }
            }
        }
    }
}
