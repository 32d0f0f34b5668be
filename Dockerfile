# A broker.  docs/containers.md describes the image and how it is run.
#
#   docker build -t odradek .
#
# BASE_IMAGE     Debian 12, or a system with the same packages
# PIP_INDEX_URL  another package index; PIP_CERT the certificates that it is checked with
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS python
# nc is for the health checks of users.  Of Python's library, modules for databases, terminals, help and
# tests are left out, and of the others the sources: Python imports what is compiled beside them.
RUN apt-get update \
 && apt-get install -y --no-install-recommends netcat-openbsd python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/* \
 && cd /usr/lib/python3.?? \
 && rm -rf pydoc_data test ensurepip lib2to3 turtledemo sqlite3 curses dbm tkinter \
      turtle.py lib-dynload/_sqlite3.* lib-dynload/_curses* lib-dynload/_codecs_* \
 && find . -name __pycache__ -prune -exec rm -rf {} + \
 && python3 -B -m compileall -q -b . \
 && find . -name '*.py' -delete

FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_CERT
RUN apt-get update && apt-get install -y --no-install-recommends binutils ca-certificates python3-venv
COPY . /source
# The wheel, with what its metadata requires, in an environment without pip.  The libraries carry
# symbols for debuggers, 30 MB of them, and parts that no program of the image uses.  The root file
# system may be read-only, so that modules are compiled here; a compiled module that is not compared
# with its source is also imported sooner.  Of other packages the compiled modules alone are kept.
RUN python3 -m venv /build \
 && /build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source \
 && python3 -m venv --without-pip /opt/odradek \
 && /build/bin/pip --python /opt/odradek/bin/python install --no-cache-dir --no-compile \
      "$(ls /wheels/odradek-*.whl)[tools]" \
 && cd /opt/odradek/lib/python3*/site-packages \
 && rm -rf kazoo/tests confluent_kafka/schema_registry confluent_kafka/kafkatest \
      zstandard/_cffi.* cffi pycparser \
 && find . -name '*.so*' -type f -exec strip --strip-unneeded {} + \
 && find . -name '*.py[ix]' -delete -o -name '*.px[di]' -delete -o -name '*.[ch]' -delete \
 && python3 -m compileall -q --invalidation-mode unchecked-hash odradek \
 && find . -path ./odradek -prune -o -name '*.py' -print > /sources \
 && python3 -B -m compileall -q -b -i /sources \
 && xargs rm < /sources

FROM python
COPY --from=build /opt/odradek /opt/odradek
COPY config/docker/one-broker.properties /etc/odradek/server.properties
# The names and places that files written for images of Apache, Confluent and Bitnami rely on.
COPY config/docker/image /
# The users of those images.  Data may be written by any user; scripts that users replace, and
# settings that they write, by the first user and by the group that a user without a name has.
# Debian's sh drops variables with a dash in their name, as those of SASL mechanisms have.
RUN groupadd --gid 1000 odradek \
 && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /var/lib/odradek \
      --shell /usr/sbin/nologin odradek \
 && useradd --uid 1000 --gid 1000 --non-unique --no-create-home --home-dir /var/lib/odradek appuser \
 && useradd --uid 1001 --gid 0 --no-create-home --home-dir /var/lib/odradek kafka \
 && data="/var/lib/odradek /var/lib/kafka/data /var/lib/zookeeper/data /var/lib/zookeeper/log \
      /tmp/kafka-logs /tmp/kraft-combined-logs /bitnami/kafka/data \
      /bitnami/zookeeper/data /kafka" \
 && mkdir -p $data /etc/kafka/secrets /mnt/shared/config /bitnami/kafka/config /opt/kafka/config \
 && chown -R 1000:0 $data /bitnami /etc/kafka /etc/confluent /mnt/shared /opt/kafka \
 && chmod -R g+w /etc/kafka /etc/confluent /mnt/shared /opt/kafka \
 && chmod 1777 $data /bitnami/kafka \
 && ln -s /opt/kafka /opt/bitnami/kafka \
 && ln -sf bash /bin/sh \
 && /opt/odradek/bin/odradek shims /opt/kafka/bin
ENV PATH=/opt/odradek/bin:/opt/kafka/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /var/lib/odradek
VOLUME /var/lib/odradek /var/lib/kafka/data /bitnami/kafka
EXPOSE 9092
# Any request that a broker serves only once it knows its cluster.
HEALTHCHECK --interval=10s --timeout=10s --start-period=30s CMD ["odradek", "container-health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["container-entrypoint"]
CMD ["container-start"]
