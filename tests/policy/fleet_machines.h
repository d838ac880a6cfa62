// Machines that planner tests share, as in deploy/machines.
#pragma once

#include "actors/policy/fleet_inputs.h"

namespace shoal::testing {

// GB200 NVL72.
inline PlanMachine rack_gpu() {
  PlanMachine machine;
  machine.fp8_flops = 5e15;
  machine.bf16_flops = 2.5e15;
  machine.memory_bytes = 192e9;
  machine.memory_rate = 8e12;
  machine.domain_gpus = 72;
  machine.domain_rate = 900e9;
  machine.link_rate = 50e9;
  machine.node_gpus = 4;
  machine.node_host_bytes = 960e9;
  machine.gpu_hour_usd = 7.5;
  return machine;
}

// H800, eight of them in a node.
inline PlanMachine node_gpu() {
  PlanMachine machine;
  machine.fp8_flops = 1.979e15;
  machine.bf16_flops = 0.989e15;
  machine.memory_bytes = 80e9;
  machine.memory_rate = 3.35e12;
  machine.domain_rate = 200e9;
  machine.link_rate = 50e9;
  machine.gpu_hour_usd = 2;
  return machine;
}

}  // namespace shoal::testing
