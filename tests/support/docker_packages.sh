#!/usr/bin/env bash
# Installs what a Docker engine of this machine and its base image need, where it is missing.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

need_command dockerd docker.io
need_command iptables iptables
need_command docker-compose docker-compose
need_command debootstrap debootstrap
install_missing
