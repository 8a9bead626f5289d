"""What programs that know nothing of the host need on the bus: loopback, and the type of capabilities."""

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import appendable, key
from cyclonedds.idl.types import bounded_str, int64

LOOPBACK = """<CycloneDDS><Domain Id="any"><General>
 <Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces><AllowMulticast>false</AllowMulticast>
 </General>
 <Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>110</MaxAutoParticipantIndex>
 <Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>"""


@dataclass
@appendable
class FunctionCapability(IdlStruct, typename="FunctionCapability"):
    function_id: bounded_str[128] = ""
    key("function_id")
    name: bounded_str[256] = ""
    description: bounded_str[2048] = ""
    provider_id: bounded_str[128] = ""
    parameter_schema: bounded_str[8192] = ""
    capabilities: bounded_str[2048] = ""
    performance_metrics: bounded_str[2048] = ""
    security_requirements: bounded_str[2048] = ""
    classification: bounded_str[2048] = ""
    last_seen: int64 = 0
    service_name: bounded_str[256] = ""
