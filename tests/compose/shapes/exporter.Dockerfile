# An exporter of another project for Prometheus, a client with kafka-python.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
ARG PIP_INDEX_URL
ARG PIP_CERT
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-venv
RUN python3 -m venv /exporter && /exporter/bin/pip install --no-cache-dir \
      kafka-python==2.0.2 prometheus-kafka-consumer-group-exporter==0.5.5
USER 1000:1000
ENTRYPOINT ["/exporter/bin/prometheus-kafka-consumer-group-exporter"]
