/** Errors of command lines that cannot be parsed. Loaded only for them. */
import { AppError } from '../app/app-error.ts';
import type { CommandEntry, CommandFamily } from './command-entry.ts';

interface TypedCommand {
  readonly entry: CommandEntry | undefined;
  readonly family: CommandFamily | undefined;
  /** What to do instead of `--json`; undefined: the command takes it. */
  readonly withoutJson: string | undefined;
  /** The step that makes a missing argument; undefined: no step makes it. */
  readonly beforeFirst: string | undefined;
}

/**
 * Makes an error of what commander complains about: `error: unknown command 'rnu'` and, on a line of its own,
 * `(Did you mean run?)`.
 */
export function toUsageError(complaint: string, { entry, family, withoutJson, beforeFirst }: TypedCommand): AppError {
  const lines = complaint
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const message = (lines[0] ?? 'error: bad usage').replace(/^error: /, '');
  if (withoutJson !== undefined && /^unknown option '--json\b/.test(message))
    return new AppError('usage', 'cli/usage', message, withoutJson);
  const suggestion = message.startsWith('missing required argument')
    ? beforeFirst
    : (explainOtherOption(message, entry) ?? lines.find((line) => line.startsWith('(Did you mean'))?.slice(1, -1));
  const path = [
    ...(family === undefined ? [] : [family.name]),
    ...(entry === undefined ? [] : [entry.name]),
    '--help',
  ].join(' ');
  const help = entry === undefined ? `All commands: voidbox ${path}` : `All options: voidbox ${path}`;
  return new AppError('usage', 'cli/usage', message, suggestion === undefined ? help : `${suggestion}\n${help}`);
}

/** Options of Void-Box that Voidbox does not have, with the form to write. */
const OTHER_OPTIONS: Readonly<Record<string, string>> = {
  '--auto-snapshot':
    'VMs start from snapshots without an option. Make them before the first run: voidbox snapshot create FILE',
  '--snapshot': 'Write `snapshot` in the `sandbox` of the spec; without it, VMs start from snapshots of booted guests.',
};
const SIZE_IN_SPEC = 'The sizes of VMs come from a spec: voidbox snapshot create FILE';
const OTHER_OPTIONS_OF_CREATE: Readonly<Record<string, string>> = {
  '--kernel': SIZE_IN_SPEC,
  '--initramfs': SIZE_IN_SPEC,
  '--memory': `${SIZE_IN_SPEC}. Write \`memory_mb\` in its \`sandbox\`.`,
  '--vcpus': `${SIZE_IN_SPEC}. Write \`vcpus\` in its \`sandbox\`.`,
  '--network': 'A snapshot of a booted guest has no network; `egress` in the spec names what a VM reaches.',
};

function explainOtherOption(message: string, entry: CommandEntry | undefined): string | undefined {
  const option = /^unknown option '(--[a-z-]+)/.exec(message)?.[1] ?? '';
  const ofCreate = entry?.usage.startsWith('snapshot create') === true ? OTHER_OPTIONS_OF_CREATE : {};
  return Object.hasOwn(ofCreate, option)
    ? ofCreate[option]
    : Object.hasOwn(OTHER_OPTIONS, option)
      ? OTHER_OPTIONS[option]
      : undefined;
}
