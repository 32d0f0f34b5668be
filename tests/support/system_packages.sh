#!/usr/bin/env bash
# Installs the system packages that the tests need and that are missing.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

need_command gcc gcc
need_file /usr/include/stdio.h libc6-dev
need_command kcat kcat
need_command java default-jdk-headless
need_command javac default-jdk-headless
need_command mvn maven
need_command node nodejs
need_command npm npm
need_command Burrow burrow
need_command chromium chromium
need_command promtool prometheus
need_command systemd-analyze systemd
need_file /usr/lib/postgresql postgresql
need_command mariadbd mariadb-server
need_file /usr/share/java/zookeeper.jar zookeeper
need_file /usr/share/java/slf4j-simple.jar libslf4j-java
install_missing
