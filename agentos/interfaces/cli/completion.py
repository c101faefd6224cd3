"""completion: a script with which the shell completes the words of agentos."""

from __future__ import annotations

from typing import Literal

from agentos.interfaces.cli.output import put

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell, /) -> None:
    """Print the completion script of a shell; nothing is installed.

    For bash: agentos completion bash > ~/.local/share/bash-completion/completions/agentos. For zsh: a file _agentos in a
    folder of $fpath. For fish: ~/.config/fish/completions/agentos.fish.

    Parameters
    ----------
    shell
        bash, zsh or fish
    """
    from agentos.interfaces.cli.app import make_app

    put(make_app().generate_completion(shell=shell))
