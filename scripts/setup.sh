#!/bin/bash
# Installs what is missing: Debian packages, a virtual environment, the locked requirements.
# $1: the virtual environment's folder; the rest: Debian packages. Does nothing that is done already.
set -euo pipefail
venv=$1
shift

missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  if ! command -v apt-get >/dev/null; then
    echo "setup: these programs are wanted and there is no apt-get: ${missing[*]}" >&2
    exit 3
  fi
  if [ "$(id -u)" != 0 ]; then
    echo "setup: run once as root to install: ${missing[*]}" >&2
    exit 3
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v go >/dev/null && [ ! -x /usr/local/go/bin/go ]; then
  echo "setup: Go is not installed (1.21 or newer, it fetches the toolchain it needs); see the README" >&2
  exit 3
fi

python=
for candidate in python3 python3.13 python3.12 python3.11; do
  if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "setup: Python 3.11 or newer with its venv module is wanted" >&2
  exit 3
fi
if [ ! -x "$venv/bin/python" ]; then
  echo "setup: making the environment with $("$python" --version)"
  "$python" -m venv "$venv"
fi
echo "setup: installing the locked requirements"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements.txt
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
