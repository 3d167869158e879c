#!/usr/bin/env bash
# Install Chromium and its driver, with which tests open pages, if they are missing and apt can install them. Without
# them these tests are skipped.
set -euo pipefail
if { command -v chromium || command -v chromium-browser; } >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
root=()
[ "$(id -u)" -eq 0 ] || root=(sudo -n)
if command -v apt-get >/dev/null && "${root[@]}" true 2>/dev/null; then
    "${root[@]}" apt-get update -qq || true
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver && exit 0
fi
echo "Chromium and its driver cannot be installed here: tests that open pages will be skipped" >&2
