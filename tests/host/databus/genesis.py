"""What a member of Genesis offers on the bus."""

from __future__ import annotations

from enginehost.databus.port import Capability

OFFERED = Capability(
    function_id="5a1c7c9e-7f0b-4a57-9d3e-0a4a0f6a2b11",
    name="add",
    description="Adds.",
    provider_id="0101c7a1b2c3d4e5f60718293a4b5c6d",
    parameter_schema='{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}',
    capabilities='["math"]',
    performance_metrics='{"latency":"low"}',
    security_requirements='{"level":"public"}',
    classification="{}",
    last_seen=1_790_000_000_000,
    service_name="CalculatorService",
)
