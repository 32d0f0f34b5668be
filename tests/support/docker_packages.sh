#!/usr/bin/env bash
# Installs what a Docker engine of this machine and its base image need, where it is missing.
set -euo pipefail

missing=()
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }

need_command dockerd docker.io
need_command iptables iptables
need_command docker-compose docker-compose
need_command debootstrap debootstrap

[ ${#missing[@]} -eq 0 ] && exit 0
echo "installing: ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
