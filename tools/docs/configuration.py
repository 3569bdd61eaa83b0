"""`docs/configuration.md`, from the types in `plimsoll.config`."""

from __future__ import annotations

import inspect

import yaml

from plimsoll.config.settings import TREE, Setting, SettingGroup

INTRODUCTION = """\
<!-- Generated from src/plimsoll/config by `make docs`; edit the types, not this page. -->
# Configuration

Settings come from four sources. Later ones take precedence:

1. the defaults below,
2. a YAML file: `plimsoll run --config plimsoll.yaml`,
3. environment variables: `PLIMSOLL_` and the key in upper snake case,
4. options: `--dry-run`, `--controllers`, `--log-format`, `--log-level`, and `--set KEY=VALUE` for any key.

```yaml
# plimsoll.yaml: only what differs from the defaults
operator:
  disruptionLimits:
    perWorkload: 3
controllers:
  reconcileInterval: 2m
logging:
  format: json
```

The same with environment variables: `PLIMSOLL_OPERATOR_DISRUPTION_LIMITS_PER_WORKLOAD=3`, `PLIMSOLL_CONTROLLERS_RECONCILE_INTERVAL=2m`,
`PLIMSOLL_LOGGING_FORMAT=json`.

- **Durations** are written as in Go: `1h30m`, `10s`, `500ms`, `0`. A number without a unit is rejected.
- **Lists** are YAML lists in the file, and comma-separated in a variable or an option.
- **Nothing is guessed.** With an unknown key or variable, a wrong type, a duplicate key or an invalid duration the process exits with
  code 2 at startup. It prints every such error with its file and line, the value, what is expected and the nearest valid key.
- **Variables that Kubernetes adds** to each pod for a Service named `plimsoll…` are ignored.
- `plimsoll config check FILE` checks a file; `plimsoll config show` prints the effective settings and the source of each value.
- The file is read once, at startup.
"""


def configuration_page() -> str:
    sections = [
        _section(group) for group in TREE.groups() if any(isinstance(m, Setting) for m in group.members.values())
    ]
    return "\n".join([INTRODUCTION, *sections])


def _section(group: SettingGroup) -> str:
    lines = [f"## `{group.key}`", "", " ".join((inspect.getdoc(group.type) or "").split()), ""]
    lines += ["| key | value | default | variable |", "|---|---|---|---|"]
    settings = [member for member in group.members.values() if isinstance(member, Setting)]
    lines += [_row(setting) for setting in settings]
    lines.append("")
    lines += [f"- **`{setting.key}`**: {setting.description}" for setting in settings]
    return "\n".join([*lines, ""])


def _row(setting: Setting) -> str:
    cells = (
        f"`{setting.key.rpartition('.')[2]}`",
        setting.form.expected,
        f"`{_default(setting)}`",
        f"`{setting.variable}`",
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _default(setting: Setting) -> str:
    return yaml.safe_dump(setting.form.plain(setting.default), default_flow_style=True).removesuffix("...\n").strip()
