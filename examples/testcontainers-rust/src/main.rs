// Starts a broker with Testcontainers, produces three records and consumes them with librdkafka.
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use testcontainers_modules::kafka::apache::{KAFKA_PORT, Kafka};
use testcontainers_modules::testcontainers::ImageExt;
use testcontainers_modules::testcontainers::runners::AsyncRunner;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let image = Kafka::default().with_name("odradek").with_tag("7.9.0");
    let kafka = image.start().await?;
    let port = kafka.get_host_port_ipv4(KAFKA_PORT).await?;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));

    let producer: FutureProducer = config.create()?;
    for value in ["hello", "from", "Odradek"] {
        let record = FutureRecord::<(), str>::to("greetings").payload(value);
        producer.send(record, Duration::ZERO).await.map_err(|(error, _)| error)?;
    }

    config.set("group.id", "examples-rust").set("auto.offset.reset", "earliest");
    let consumer: StreamConsumer = config.create()?;
    consumer.subscribe(&["greetings"])?;
    for _ in 0..3 {
        let record = consumer.recv().await?;
        println!("{} {}", record.offset(), record.payload_view::<str>().unwrap()?);
    }
    Ok(())
}
