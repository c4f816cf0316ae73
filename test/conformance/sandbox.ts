/** Every promise of the Sandbox port, as a table that each backend is tested against. */
import { ATTACHMENT } from './sandbox/attachment.ts';
import type { Behaviour } from './sandbox/behaviour.ts';
import { CHECKPOINTS } from './sandbox/checkpoints.ts';
import { COMMANDS } from './sandbox/commands.ts';
import { FILES } from './sandbox/files.ts';
import { FLOODS } from './sandbox/floods.ts';
import { LIMITS } from './sandbox/limits.ts';

export type { Behaviour, Conformance } from './sandbox/behaviour.ts';

/** Rows that another image of the guest may break: the environment, the actions and the results of commands. */
export const OF_IMAGES: readonly Behaviour[] = [...COMMANDS, ...FILES, ...LIMITS].filter(
  ({ image }) => image !== 'base',
);

/** `FLOODS` is about the agent and the kernel, `ATTACHMENT` about the keeper and its drivers. They are the same for all images. */
export const BEHAVIOURS: readonly Behaviour[] = [
  ...COMMANDS,
  ...FLOODS,
  ...FILES,
  ...LIMITS,
  ...ATTACHMENT,
  ...CHECKPOINTS,
];

/** Rows that show within seconds whether a kernel, an image and a keeper fit together. */
const SMOKE_NAMES: ReadonlySet<string> = new Set([
  'exit codes come through',
  'a command is uid 1000 without other groups, capabilities or a way to more',
  'one MiB of standard input is echoed, byte for byte, while output flows',
  'a file goes in and comes out again, byte for byte',
  'bulk data goes through the mailbox in both directions',
  'a folder goes through tar with its modes, links and long names',
  'a read-only mount is live and cannot be written',
  'a command that ignores signals is killed past its time, with all that it started',
  'memory that is used up kills the command, never the agent',
  'a command makes user namespaces',
  'two outputs of one program keep their order',
  'a VM says what it is',
  'a second launch attaches and makes the first one stale',
]);

export const SMOKE: readonly Behaviour[] = BEHAVIOURS.filter((behaviour) => SMOKE_NAMES.has(behaviour.name));

if (SMOKE.length !== SMOKE_NAMES.size) throw new Error('a row of the smoke set was renamed: name it here too');
