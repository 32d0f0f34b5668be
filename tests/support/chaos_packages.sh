#!/usr/bin/env bash
# Installs what cuts links and slows them down, where it is missing.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

need_command ip iproute2
need_command tc iproute2
need_command iptables iptables
install_missing
