#!/usr/bin/env bash
exec container-entrypoint "$@"
