#!/usr/bin/env bash
# Starts a Ceph of one monitor and one OSD on 127.0.0.1, all of it in a temporary directory, runs a command against it and takes it
# down again. The exit status is the command's.
#   tests/transport/ceph_loopback.sh COMMAND [ARG...]
# The command finds in its environment:
#   SHOAL_CEPH_CONF      the ceph.conf; the pool is `shoal`
#   SHOAL_CEPH_OSD_PID   a file with the OSD's process, to be killed or stopped
#   SHOAL_CEPH_OSD       the command line that starts the OSD again
# STORE=memstore keeps everything in memory (default: bluestore in a file), OSDS=3 starts three (and the pool keeps two copies).
set -euo pipefail

for program in ceph-mon ceph-osd ceph monmaptool python3; do
  command -v "$program" >/dev/null || {
    echo "$0: no $program here; as root: apt-get install --no-install-recommends ceph-mon ceph-osd ceph-common librados-dev" >&2
    exit 2
  }
done
[ $# -gt 0 ] || { echo "$0: name a command, for example: $0 build/tests/transport/rados_store_test" >&2; exit 2; }

store=${STORE:-bluestore}
osds=${OSDS:-1}
dir=$(mktemp -d /tmp/shoal_ceph_XXXXXX)
as=()
[ "$(id -u)" -ne 0 ] || as=(--setuser root --setgroup root)

stop() {
  for pid in "$dir"/*.pid; do
    [ -f "$pid" ] && kill -9 "$(cat "$pid")" 2>/dev/null
  done
  rm -rf "$dir"
}
trap 'stop || true' EXIT

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
fsid=$(cat /proc/sys/kernel/random/uuid)
export CEPH_CONF=$dir/ceph.conf
cat >"$CEPH_CONF" <<CONF
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$port]
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
ms bind ipv6 = false
ms bind msgr1 = false
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = $((osds > 1 ? 2 : 1))
osd pool default min size = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
run dir = $dir
admin socket = $dir/\$name.asok
log file = $dir/\$name.log
pid file = $dir/\$name.pid
[client]
log file =
[mon]
mon data = $dir/mon
mon cluster log file = $dir/cluster.log
mon osd min down reporters = 1
mon data avail crit = 1
[osd]
osd data = $dir/osd.\$id
osd objectstore = $store
bluestore block size = 8589934592
memstore device bytes = 4294967296
osd memory target = 1073741824
osd heartbeat grace = 3
osd heartbeat interval = 1
CONF

failed() {
  echo "$0: Ceph does not start; the end of its logs:" >&2
  tail -n 5 "$dir"/*.log >&2
  exit 1
}

mkdir "$dir/mon"
monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$port]" "$dir/monmap" >/dev/null
ceph-mon -i a --mkfs --monmap "$dir/monmap" "${as[@]}"
ceph-mon -i a "${as[@]}"
timeout 30 ceph mon stat >/dev/null || failed
for ((i = 0; i < osds; ++i)); do
  mkdir "$dir/osd.$i"
  uuid=$(cat /proc/sys/kernel/random/uuid)
  timeout 30 ceph osd new "$uuid" >/dev/null || failed
  ceph-osd -i "$i" --mkfs --osd-uuid "$uuid" "${as[@]}" >/dev/null 2>&1 || failed
  ceph-osd -i "$i" "${as[@]}" >/dev/null
done
timeout 30 ceph osd pool create shoal 8 8 >/dev/null 2>&1 || failed
# Answered once the OSDs serve the pool.
timeout 60 rados -p shoal put started /dev/null || failed

export SHOAL_CEPH_CONF=$CEPH_CONF
export SHOAL_CEPH_OSD_PID=$dir/osd.0.pid
export SHOAL_CEPH_OSD="ceph-osd --conf $CEPH_CONF -i 0 ${as[*]}"
"$@"
