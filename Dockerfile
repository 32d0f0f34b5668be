# A broker.  docs/containers.md describes the image and how it is run.
#
#   docker build -t odradek .
#
# BASE_IMAGE     Debian 12, or a system with the same packages
# PIP_INDEX_URL  another package index; PIP_CERT the certificates that it is checked with
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS python
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/*

FROM python AS build
ARG PIP_INDEX_URL
ARG PIP_CERT
RUN apt-get update && apt-get install -y --no-install-recommends binutils ca-certificates python3-venv
COPY . /source
# The wheel, with what its metadata requires, in an environment without pip.  The libraries carry
# symbols for debuggers, 30 MB of them.  The root file system may be read-only, so that modules are
# compiled here; a compiled module that is not compared with its source is also imported sooner.
RUN python3 -m venv /build \
 && /build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source \
 && python3 -m venv --without-pip /opt/odradek \
 && /build/bin/pip --python /opt/odradek/bin/python install --no-cache-dir --no-compile \
      "$(ls /wheels/odradek-*.whl)[tools]" \
 && find /opt/odradek -name '*.so*' -type f -exec strip --strip-unneeded {} + \
 && /opt/odradek/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/odradek/lib

FROM python
COPY --from=build /opt/odradek /opt/odradek
COPY config/docker/one-broker.properties /etc/odradek/server.properties
RUN groupadd --gid 1000 odradek \
 && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /var/lib/odradek \
      --shell /usr/sbin/nologin odradek \
 && install -d -o odradek -g odradek /var/lib/odradek
ENV PATH=/opt/odradek/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /var/lib/odradek
VOLUME /var/lib/odradek
EXPOSE 9092
# Any request that a broker serves only once it knows its cluster.
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s \
  CMD ["odradek", "topics", "--bootstrap-server", "127.0.0.1:9092", "--list"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["odradek"]
CMD ["start", "/etc/odradek/server.properties"]
