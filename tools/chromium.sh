#!/usr/bin/env bash
# Chromium for `make browser`: the system's, else apt's, else Playwright's ($1: folder of its program). Without one the
# tests are skipped, saying so.
set -uo pipefail
for name in chromium chromium-browser google-chrome; do command -v "$name" >/dev/null && exit 0; done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) >/dev/null 2>&1 && exit 0
fi
timeout 300 "$1/playwright" install --with-deps chromium >/dev/null 2>&1 || echo "no Chromium could be installed: the tests of pages are skipped"
