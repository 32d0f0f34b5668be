"""The broker in a container: its settings from the environment, as images of Kafka take them."""
