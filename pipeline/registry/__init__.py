"""Schema registries: records with the id of their schema, in Avro, Protobuf and JSON."""
