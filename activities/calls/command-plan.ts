/**
 * Builds the plan of one command. The caller's values are checked here, and after that by the check of plans from
 * outside.
 */
import { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { PLAN_LIMITS, PLAN_VERSION } from '../../domain/plan/plan.ts';
import type { Fields } from './values.ts';
import { quote } from '../../domain/units/quote.ts';

export interface CommandPlan {
  readonly name: string;
  /** The plan as it is sent in a request; not checked yet. */
  readonly plan: unknown;
  readonly stdin: string | null;
}

const STDIN_BYTES = 256 * 1024;

const KEYS = ['program', 'args', 'env', 'secrets', 'cwd', 'stdin', 'sandbox', 'timeoutMs', 'name'];
const SANDBOX_KEYS = ['mode', 'isolation', 'memoryMib', 'vcpus', 'diskMib', 'snapshot', 'mounts'];
const MOUNT_KEYS = ['host', 'guest', 'mode', 'git'];

/** @throws CodedError `admit/invalid`, `run/too-large` */
export function commandPlan(value: unknown): CommandPlan {
  const request = objectOf(value, 'the argument', KEYS);
  const program = textOf(request['program'], '`program`');
  const args = listOf(request['args'] ?? [], '`args`').map((each, index) => textOf(each, `\`args[${index}]\``));
  const env = Object.entries(objectOf(request['env'] ?? {}, '`env`')).map(([name, text]) => ({
    name,
    value: { kind: 'literal' as const, text: textOf(text, `\`env.${name}\``) },
  }));
  const secrets = listOf(request['secrets'] ?? [], '`secrets`').map((each, index) =>
    textOf(each, `\`secrets[${index}]\``),
  );
  const lent = secrets.map((name) => ({ name, value: { kind: 'from-host' as const, fromHost: name } }));
  const { mounts, snapshot, ...sandbox } = objectOf(request['sandbox'] ?? {}, '`sandbox`', SANDBOX_KEYS);
  const name = nameOf(request['name'], program);
  const plan = {
    version: PLAN_VERSION,
    kind: 'workflow',
    name,
    stages: [
      {
        id: name,
        work: { kind: 'command', program, args, env: [...env, ...lent], ...omitAbsent({ cwd: request['cwd'] }) },
        ...omitAbsent({ timeoutMs: request['timeoutMs'] }),
      },
    ],
    scopes: [
      {
        id: name,
        sandbox: {
          ...omitAbsent(sandbox),
          ...readStart(snapshot),
          mounts: listOf(mounts ?? [], '`sandbox.mounts`').map(mountOf),
        },
      },
    ],
    output: { kind: 'stage', stage: name },
    maxParallel: 1,
    hostVariables: secrets,
  };
  return { name, plan, stdin: stdinOf(request['stdin']) };
}

function mountOf(value: unknown, index: number): Fields {
  const place = `sandbox.mounts[${index}]`;
  const { host, guest, mode, git = 'protected' } = objectOf(value, `\`${place}\``, MOUNT_KEYS);
  const hostPath = textOf(host, `\`${place}.host\``);
  const mount = { hostPath, guestPath: textOf(guest, `\`${place}.guest\``), mode: mode ?? 'ro' };
  return git === 'protected' ? mount : { ...mount, git };
}

function readStart(snapshot: unknown): Fields {
  if (snapshot === undefined) return {};
  if (snapshot === 'none') return { start: 'cold' };
  throw invalid(`\`sandbox.snapshot\` must be "none", it is ${quote(snapshot)}`);
}

/** Derives a valid name for the stage, because the name of a program may be invalid for stages. */
function nameOf(value: unknown, program: string): string {
  if (value !== undefined) return textOf(value, '`name`');
  const stem = posix
    .basename(program)
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, PLAN_LIMITS.nameLength);
  return stem === '' ? 'command' : stem;
}

function stdinOf(value: unknown): string | null {
  if (value === undefined) return null;
  const text = textOf(value, '`stdin`');
  const bytes = Buffer.byteLength(text);
  if (bytes <= STDIN_BYTES) return text;
  throw new CodedError(
    'run/too-large',
    `\`stdin\` of the command has ${bytes} bytes; it may have at most ${STDIN_BYTES}: mount a folder, or fetch it in the command`,
  );
}

/** Omits undefined values, so that they get their defaults. */
function omitAbsent(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function objectOf(value: unknown, what: string, keys?: readonly string[]): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(`${what} must be an object, it is ${quote(value)}`);
  const stranger = keys === undefined ? undefined : Object.keys(value).find((key) => !keys.includes(key));
  if (stranger !== undefined)
    throw invalid(`${what} has the key ${quote(stranger)}, known ones are ${(keys ?? []).join(', ')}`);
  return value as Fields;
}

function listOf(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value as readonly unknown[];
  throw invalid(`${what} must be a list, it is ${quote(value)}`);
}

function textOf(value: unknown, what: string): string {
  if (typeof value === 'string') return value;
  throw invalid(`${what} must be a string, it is ${quote(value)}`);
}

function invalid(why: string): CodedError {
  return new CodedError('admit/invalid', `runCommand: ${why}`);
}
