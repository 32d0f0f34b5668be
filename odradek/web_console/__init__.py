"""`odradek console`: a web console for Kafka clusters, which it reaches over Kafka's protocol."""
