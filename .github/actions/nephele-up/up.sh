#!/usr/bin/env bash
# Installs a release of Nephele for tests in CI, and runs `nephele up` beside them.
#
#   up.sh install           downloads the program into the folder, after its checksum has been compared
#   up.sh start [FLAG]...   runs `nephele up` with these flags until the job ends; returns when the Clusters of its files are available
#
#   NEPHELE_VERSION    the release, such as v0.1.0
#   NEPHELE_FOLDER     where the program is, and in `up` the kubeconfigs, the journal and the log; by default /tmp/nephele
#   NEPHELE_DOWNLOADS  where the releases are, if not on GitHub
#
# The GitHub Action beside this file calls it, and so can any other CI.
set -euo pipefail
folder=${NEPHELE_FOLDER:-/tmp/nephele}

fail() {
  echo "nephele: $1" >&2
  exit 1
}

install() {
  local version=${NEPHELE_VERSION:?the release, such as v0.1.0} os arch name
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) fail "there is no program for $(uname -s)" ;;
  esac
  case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "there is no program for $(uname -m)" ;;
  esac
  name=nephele-$version-$os-$arch
  local from=${NEPHELE_DOWNLOADS:-https://github.com/nephele-dev/nephele/releases/download}/$version
  mkdir -p "$folder"
  cd "$folder"
  curl --fail --silent --show-error --location --retry 3 --remote-name "$from/$name.tar.gz" --remote-name "$from/SHA256SUMS"
  grep -q "  $name.tar.gz\$" SHA256SUMS || fail "the checksums of $version have no $name.tar.gz"
  grep "  $name.tar.gz\$" SHA256SUMS | check || fail "$name.tar.gz is not what was released: its checksum differs"
  tar -xzf "$name.tar.gz" --strip-components 1 "$name/nephele"
  rm "$name.tar.gz" SHA256SUMS
}

# macOS has another program for it.
check() {
  if command -v sha256sum >/dev/null; then sha256sum --check --quiet -; else shasum -a 256 --check --quiet -; fi
}

start() {
  [ -x "$folder/nephele" ] || fail "there is no $folder/nephele: call install first"
  # With --json, it ends when its standard input ends. This one does not.
  rm -f "$folder/input"
  mkfifo "$folder/input"
  nohup "$folder/nephele" up --json --folder "$folder/up" "$@" 0<>"$folder/input" >"$folder/line.json" 2>"$folder/errors.log" &
  local up=$!
  echo "$up" >"$folder/pid"
  until [ -s "$folder/line.json" ]; do
    if ! kill -0 "$up" 2>/dev/null; then
      cat "$folder/errors.log" >&2
      fail "nephele up has ended"
    fi
    sleep 0.2
  done
  cat "$folder/line.json"
}

case ${1:-} in
  install | start) "$@" ;;
  *) fail "usage: $0 install, or $0 start [FLAG]..." ;;
esac
