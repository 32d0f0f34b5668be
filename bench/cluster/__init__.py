"""Three brokers on one ZooKeeper: Odradek beside Apache Kafka; `python -m bench.cluster`."""
