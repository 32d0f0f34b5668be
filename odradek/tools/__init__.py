"""The subcommands of `odradek`: one module or package each."""
