/**
 * The programs that the mock simulates. It has no shell and no network, and no other program can start. Each program
 * behaves like the tool of its name for the arguments that it supports, and rejects other arguments with exit code 2
 * instead of guessing.
 */
import { Buffer } from 'node:buffer';
import type { MockFiles } from './files.ts';
import { posix } from 'node:path';
import { quote } from '../../domain/units/quote.ts';

export interface MockIo {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly files: MockFiles;
  readonly stdin: AsyncIterable<Uint8Array>;
  /** Aborted when the command is killed. */
  readonly killed: AbortSignal;
  /** Aborted by SIGTERM. A program that listens to it has a trap: it ends itself, or is killed after the grace. */
  readonly terminated: AbortSignal;
  write(stream: 'stdout' | 'stderr', bytes: Uint8Array | string): Promise<void>;
}

/** Runs to its end, and returns its exit code. */
export type MockProgram = (io: MockIo) => Promise<number>;

export const MOCK_PROGRAMS: Readonly<Record<string, MockProgram>> = {
  true: async () => 0,
  false: async () => 1,
  echo: async ({ args, write }) => {
    const noNewline = args[0] === '-n';
    await write('stdout', `${(noNewline ? args.slice(1) : args).join(' ')}${noNewline ? '' : '\n'}`);
    return 0;
  },
  printf,
  cat,
  tee,
  tr,
  pwd: async ({ cwd, write }) => {
    await write('stdout', `${cwd}\n`);
    return 0;
  },
  env: async ({ args, env, write }) => {
    if (args.length > 0) return refuse(write, 'env', 'the mock prints variables only');
    await write(
      'stdout',
      Object.entries(env)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    );
    return 0;
  },
  sleep,
};

type Write = MockIo['write'];

async function refuse(write: Write, program: string, why: string): Promise<number> {
  await write('stderr', `${program} (mock): ${why}\n`);
  return 2;
}

async function printf({ args, write }: MockIo): Promise<number> {
  const [format, ...values] = args;
  if (format === undefined) return refuse(write, 'printf', 'no format');
  if (/%(?![sd%])/.test(format))
    return refuse(write, 'printf', `only %s, %d and %% are simulated, not ${quote(format)}`);
  const text = unescape(format).replace(/%[sd%]/g, (spec) =>
    spec === '%%' ? '%' : (values.shift() ?? (spec === '%d' ? '0' : '')),
  );
  await write('stdout', text);
  return 0;
}

async function cat({ args, cwd, files, stdin, write }: MockIo): Promise<number> {
  let exitCode = 0;
  for (const name of args.length === 0 ? ['-'] : args) {
    if (name === '-') {
      for await (const chunk of stdin) await write('stdout', chunk);
      continue;
    }
    const node = files.find(posix.resolve(cwd, name));
    if (node?.kind === 'file') {
      await write('stdout', node.body);
    } else {
      await write(
        'stderr',
        `cat: can't open '${name}': ${node === null ? 'No such file or directory' : 'Is a directory'}\n`,
      );
      exitCode = 1;
    }
  }
  return exitCode;
}

async function tee({ args, cwd, files, stdin, write }: MockIo): Promise<number> {
  if (args.some((arg) => arg.startsWith('-'))) return refuse(write, 'tee', 'options are not simulated');
  const parts: Uint8Array[] = [];
  for await (const chunk of stdin) {
    parts.push(chunk);
    await write('stdout', chunk);
  }
  for (const name of args) files.write(posix.resolve(cwd, name), Buffer.concat(parts));
  return 0;
}

async function tr({ args, stdin, write }: MockIo): Promise<number> {
  const [from, to, ...more] = args;
  if (from === undefined || more.length > 0) return refuse(write, 'tr', 'expected two sets, or -d and one');
  const isDelete = from === '-d';
  const source = expandSet(isDelete ? (to ?? '') : from);
  const target = isDelete ? [] : expandSet(to ?? '');
  if (source === null || target === null || source.length === 0 || (!isDelete && target.length === 0))
    return refuse(write, 'tr', `the sets ${quote(args)} are not simulated`);
  const map = new Map(
    source.map((byte, index) => [byte, isDelete ? -1 : (target[Math.min(index, target.length - 1)] as number)]),
  );
  for await (const chunk of stdin)
    await write('stdout', Buffer.from([...chunk].map((byte) => map.get(byte) ?? byte).filter((byte) => byte >= 0)));
  return 0;
}

async function sleep({ args, killed, write }: MockIo): Promise<number> {
  const seconds = Number(args[0]);
  if (args.length !== 1 || !Number.isFinite(seconds) || seconds < 0)
    return refuse(write, 'sleep', `expected seconds, got ${quote(args)}`);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    killed.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
  return 0;
}

/** Returns the bytes of a set like `a-z0-9_\n`; null for classes and repeats. */
function expandSet(set: string): number[] | null {
  const text = unescape(set);
  if (text.includes('[:') || text.includes('[=')) return null;
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const first = text.charCodeAt(at);
    const last = text[at + 1] === '-' && at + 2 < text.length ? text.charCodeAt((at += 2)) : first;
    if (first > 0x7f || last > 0x7f || last < first) return null;
    for (let byte = first; byte <= last; byte += 1) bytes.push(byte);
  }
  return bytes;
}

function unescape(text: string): string {
  const plain: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', '\\': '\\', '0': '\0' };
  return text.replace(/\\([ntr\\0])/g, (_, letter: string) => plain[letter] as string);
}
