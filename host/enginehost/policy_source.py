"""Where the policy of a host comes from: its settings, or a file that may be written while it runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from enginehost.diagnostics import Diagnostic, error_diagnostics
from enginehost.errors import ConfigError
from enginehost.folder import fingerprint
from enginehost.policy import Policy, policy_for
from enginehost.settings import HostSettings

if TYPE_CHECKING:
    from enginehost.databus import DatabusConfig

_log = logging.getLogger("enginehost.host")


class PolicySource:
    """Reads the policy of a host that was told ``databus``, which may add to it."""

    def __init__(self, settings: HostSettings, databus: DatabusConfig | str | None) -> None:
        self._settings = settings
        self._databus = databus
        policy = settings.policy
        self.file = policy.file.absolute() if policy is not None and policy.file is not None else None
        self.seen = fingerprint(self.file) if self.file is not None else None
        """The file as it was when it was first read."""
        self.problems: list[Diagnostic] = []
        """What is wrong with the file as it is now."""

    def read(self) -> Policy:
        """Raises ``ConfigError``."""
        bus = self._databus
        if bus is None or isinstance(bus, str):
            return policy_for(self._settings)
        return policy_for(self._settings, allow_unsigned=bus.allow_unsigned, reachable=not bus.loopback)

    def read_again(self) -> Policy:
        """:meth:`read`, and keep in :attr:`problems` what is wrong."""
        try:
            policy = self.read()
        except ConfigError as error:
            self.problems = error_diagnostics(error, "policy")
            raise
        self.problems = []
        written = policy.written
        rules = f"{len(written.rules)} rule{'' if len(written.rules) == 1 else 's'}"
        _log.info("the policy was read again: default %s, %s", written.default, rules)
        return policy
