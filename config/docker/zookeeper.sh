#!/bin/sh
# The process of a ZooKeeper container.  Names of servers that are not started yet must not be taken
# for unknown ones: Java would remember that for 10 s.
set -eu
echo "$ZOOKEEPER_ID" >/data/myid
exec java -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
  -Djute.maxbuffer=4194304 -Djava.net.preferIPv4Stack=true \
  -Dsun.net.inetaddr.ttl=5 -Dsun.net.inetaddr.negative.ttl=0 \
  -XX:-UsePerfData -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms32m -Xmx128m \
  org.apache.zookeeper.server.quorum.QuorumPeerMain /etc/ensemble/zoo.cfg
