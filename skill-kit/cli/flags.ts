/** The flags of every command, read in one place. */
import { parseArgs } from 'node:util';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import { toolNames } from '../prompt/agent-hosts.ts';
import { UsageError } from './io.ts';
import type { SessionOutputMode } from './session-lines.ts';
import { shorten } from '../../domain/units/quote.ts';

/** Flags that take a value. */
const TEXT_FLAGS = [
  'params',
  'params-file',
  'step',
  'output',
  'output-file',
  'history',
  'history-file',
  'host',
  'tools',
  'session',
  'session-dir',
  'output-mode',
  'subskill',
  'turn',
] as const;

const BOOLEAN_FLAGS: ReadonlySet<string> = new Set(['subagent', 'durable', 'help']);

type TextFlag = (typeof TEXT_FLAGS)[number];

export interface Flags {
  readonly text: Readonly<Partial<Record<TextFlag, string>>>;
  readonly subagent: boolean;
  readonly durable: boolean;
  readonly help: boolean;
  /** Arguments without a meaning, for a warning. */
  readonly ignored: readonly string[];
  /** Words that belong to no flag. */
  readonly surplus: readonly string[];
}

/** Takes a value literally, even if it starts with `--`. If a flag is repeated, the last value counts. */
export function parseFlags(args: readonly string[]): Flags {
  const options = Object.fromEntries(TEXT_FLAGS.map((name) => [name, { type: 'string' as const }]));
  const { values, tokens } = parseArgs({
    args: [...args],
    strict: false,
    allowPositionals: true,
    tokens: true,
    options: {
      ...options,
      subagent: { type: 'boolean' },
      durable: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  const text: Partial<Record<TextFlag, string>> = {};
  const ignored: string[] = [];
  for (const name of TEXT_FLAGS) {
    const value = values[name];
    if (typeof value === 'string') text[name] = value;
    else if (value !== undefined) ignored.push(`--${name}, which has no value`);
  }
  const surplus: string[] = [];
  let unknownAt = Number.NEGATIVE_INFINITY;
  for (const token of tokens) {
    // The word behind an unknown flag is most likely its value, and is ignored with it.
    if (token.kind === 'positional' && token.index !== unknownAt + 1) surplus.push(token.value);
    if (token.kind !== 'option' || token.name in options || BOOLEAN_FLAGS.has(token.name)) continue;
    ignored.push(`the unknown flag ${token.rawName}`);
    unknownAt = token.index;
  }
  return {
    text,
    subagent: values['subagent'] !== undefined,
    durable: values['durable'] !== undefined,
    help: values['help'] !== undefined,
    ignored,
    surplus,
  };
}

export function handshakeOf({ text: { host, tools }, subagent }: Flags): Handshake {
  return { host: host ?? 'generic', toolsAvailable: toolNames(tools ?? ''), isSubagent: subagent };
}

/** @throws {UsageError} */
export function outputModeOf({ text }: Flags): SessionOutputMode {
  const mode = text['output-mode'] ?? 'file';
  if (mode === 'file' || mode === 'flag') return mode;
  throw new UsageError(
    `--output-mode is "${shorten(mode)}"; it must be file (you write each answer to the session file) or flag (you pass it with --output).`,
  );
}
