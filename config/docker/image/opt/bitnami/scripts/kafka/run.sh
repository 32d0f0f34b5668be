#!/usr/bin/env bash
exec odradek container-start "$@"
