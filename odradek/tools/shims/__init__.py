"""Scripts named as those in Apache Kafka's bin/, which run the tools of this package."""
