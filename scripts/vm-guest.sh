#!/bin/bash
# Runs inside the virtual machine of test-vm.sh, started by systemd: the tests, then their status. What it
# prints leaves through the second serial line. The tests are named one by one, so that a renamed one fails.
set -uo pipefail
stty -F /dev/ttyS1 raw -echo
exec >/dev/ttyS1 2>&1 </dev/null
read -r up _ </proc/uptime
echo "vm: up in $up s, Linux $(uname -r), control groups: $(stat -f -c %T /sys/fs/cgroup)"
export PATH=/payload/bin:$PATH PYTHONPATH=/payload/checkout/src:/payload/site HOME=/root LANG=C.UTF-8
export AFTERSHOCK_CACHE=/payload/cache AFTERSHOCK_STATE=/payload/state AFTERSHOCK_PATIENCE=10
cd /payload/checkout || exit
network=(pods_reach_a_service_by_name_from_every_node policies_deny_and_allow_on_one_node_and_across
  users_outside_reach_a_load_balancer_and_pods_reach_parties_outside nothing_inside_can_open_a_connection_to_the_machine)
work=(exec_logs_and_port_forward memory_over_the_limit_is_seen_as_oom_killed a_small_disk_fills_up)
counted=tests/cluster/test_lifecycle.py::test_memory_and_processes_are_counted_and_limited
nothing_shows=(a_pod_sees_only_a_node a_node_sees_only_itself not_even_a_privileged_pod_opens_the_machines_disk)
lifecycle=(the_next_start_removes_what_a_kill_left a_box_outlives_its_command_and_down_removes_it_all)
snapshot=(two_boxes_from_one_state_side_by_side)

run() { # The first failure ends it: what hangs here would hang ten times as long as elsewhere.
  python -m pytest -x -p no:cacheprovider --color=no -v --durations=0 --durations-min=1 --tb=short "$@"
}

ids() {
  local file name
  for file in "$@"; do
    local -n names=$file
    for name in "${names[@]}"; do echo "tests/cluster/test_$file.py::test_$name"; done
  done
}

# Two runs, so that the cluster that tests share is gone when others start their own.
if [ -s /payload/tests ]; then
  mapfile -t tests </payload/tests
  run "${tests[@]}"
else
  # shellcheck disable=SC2046 # ids hold no spaces
  run $(ids network work nothing_shows) "$counted" && run $(ids lifecycle snapshot)
fi
code=$?
if ((code)); then
  tail -n 5 /payload/state/boxes/*/node-*/boot.log
  dmesg --level=emerg,alert,crit,err | tail -n 20
fi
aftershock list
echo "vm: tests ended with $code"
sync
