#!/usr/bin/env bash
# Installs the system packages that the tests need and that are missing: Debian's names.
# A command that is there already, from wherever, counts as installed.
set -euo pipefail

missing=()
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need_file() { [ -e "$1" ] || missing+=("$2"); }

need_command gcc gcc
need_file /usr/include/stdio.h libc6-dev
need_command kcat kcat
need_command java default-jdk-headless
need_command javac default-jdk-headless
need_command mvn maven
need_command node nodejs
need_command npm npm
need_command Burrow burrow
need_file /usr/lib/postgresql postgresql
need_command mariadbd mariadb-server
need_file /usr/share/java/zookeeper.jar zookeeper
need_file /usr/share/java/slf4j-simple.jar libslf4j-java

[ ${#missing[@]} -eq 0 ] && exit 0
sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
echo "installing: ${missing[*]}"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
