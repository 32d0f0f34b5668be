"""A node for tests of programs that use Kafka, wrapped around the one of `odradek.broker`.

`InstrumentedNode` counts the requests of clients, may pass for a release of Apache Kafka, and has
faults; `ControlledNode` has a control channel besides.  This runs in the process of a broker, and
the rest of `odradek.testing` in that of the tests.
"""
