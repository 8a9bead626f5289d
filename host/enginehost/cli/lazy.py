"""Commands that are listed without being imported: the host's own, and those of plugins."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from enginehost.cli.failures import CommandError
from enginehost.cli.usage import told_as_errors
from enginehost.errors import ConfigError

if TYPE_CHECKING:
    from enginehost.entrypoints import Alias

_COMPLETION = frozenset({"install_completion", "show_completion"})


class LazyCommand(TyperCommand):
    """A name and a line of help; the command itself is loaded when it is to run."""

    def load(self) -> Any:
        """The command itself. Raises ``ConfigError`` where it cannot be loaded."""
        raise NotImplementedError

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself, which runs in place of this one."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class OwnCommand(LazyCommand):
    """A command of the host: module ``enginehost.cli.commands.<name>`` with a Typer app ``app``."""

    def load(self) -> Any:
        """The command itself."""
        name = f"{self.name}_" if iskeyword(str(self.name)) else self.name
        module = import_module(f"enginehost.cli.commands.{name}")
        return as_command(module.app, str(self.name))


class PluginCommand(LazyCommand):
    """A command that an entry point of group ``enginehost.commands`` names."""

    def __init__(self, alias: Alias) -> None:
        super().__init__(alias.name, help=f"From {alias.distribution} {alias.version}.")
        self._alias = alias

    def load(self) -> Any:
        """The command itself. Raises ``ConfigError`` where the plugin is broken."""
        from enginehost.plugins import PluginRegistry

        return as_command(PluginRegistry().load(self._alias), self._alias.name)


def as_command(loaded: Any, name: str) -> Any:
    """A Typer app, or a plain function, as a command. Raises ``ConfigError`` for anything else."""
    app = loaded
    if not isinstance(loaded, typer.Typer):
        if not callable(loaded):
            message = f"the command {name} is neither a Typer app nor a function"
            raise ConfigError(message, hint="the entry point has to name one", reason="plugin-broken")
        app = typer.Typer()
        app.command(name)(loaded)
    command = typer.main.get_command(app)
    command.name = name
    command.params = [param for param in command.params if param.name not in _COMPLETION]
    return command


class Commands(TyperGroup):
    """All commands: those in :attr:`own` (name → line of help), then those of plugins."""

    own: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help page."""
        return [*self.own, *self._plugins]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, not loaded yet."""
        if cmd_name in self.own:
            return OwnCommand(cmd_name, help=self.own[cmd_name])
        return self._plugins.get(cmd_name)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the whole program. Raises :class:`CommandError` for words that make no sense."""
        with told_as_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises :class:`CommandError` for words that make no sense."""
        with told_as_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that ``args`` begin with; a name nobody has is answered with the nearest."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            near = get_close_matches(name, names)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names)}"
            raise CommandError(f"there is no command {name!r}", hint=hint)
        return super().resolve_command(ctx, args)

    @cached_property
    def _plugins(self) -> dict[str, PluginCommand]:
        from importlib.metadata import distributions

        from enginehost.entrypoints import COMMANDS, scan

        aliases = scan(distributions(), lambda problem: None)
        found: dict[str, PluginCommand] = {}
        for alias in aliases:
            if alias.group == COMMANDS and alias.name not in self.own:
                found.setdefault(alias.name, PluginCommand(alias))
        return found
