# A ZooKeeper server of Debian's package, for docker-compose.yml.  ZOOKEEPER_ID is its number in the
# ensemble of config/docker/zoo.cfg.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
# Java's package wants a folder for manuals, which slim images do not have.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install -y --no-install-recommends default-jre-headless libslf4j-java libzookeeper-java \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt \
 && groupadd --gid 1000 ensemble \
 && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /data --shell /usr/sbin/nologin ensemble \
 && install -d -o ensemble -g ensemble /data
COPY config/docker/zoo.cfg config/docker/zookeeper.sh /etc/ensemble/
USER 1000:1000
VOLUME /data
EXPOSE 2181
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2181 && echo srvr >&3 && grep -q ^Mode: <&3"]
ENTRYPOINT ["sh", "/etc/ensemble/zookeeper.sh"]
