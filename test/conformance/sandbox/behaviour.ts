/** The types and helpers of the rows of the conformance table. A row throws when a backend breaks its promise. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import type {
  Exec,
  ExecExit,
  ExecRequest,
  LaunchSpec,
  Sandbox,
  SandboxBackend,
  VmKey,
} from '../../../activities/ports/sandbox.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';

export interface Conformance {
  readonly backend: SandboxBackend;
  /** A plan with a read-only mount of `mountedDir` at /data. */
  readonly plan: LaunchSpec;
  readonly mountedDir: string;
  /** A key that no VM has had. */
  newKey(): VmKey;
  /** The VM that rows share, under its current fence. */
  shared(): Promise<Sandbox>;
  readonly sharedKey: VmKey;
  /** An empty host folder, removed after the row. */
  hostDir(): Promise<string>;
}

export interface Behaviour {
  readonly name: string;
  /** `real`: it is about a guest's kernel or shell, which a simulation does not have. */
  readonly guest: 'any' | 'real';
  /** The row is about tools of Voidbox's own image, which other images may lack. */
  readonly image?: 'base';
  run(c: Conformance): Promise<void>;
}

export interface Ran {
  readonly exit: ExecExit;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

let execCount = 0;

export function newExecKey(): string {
  execCount += 1;
  return `conformance/${process.pid}/${execCount}`;
}

/** Longer than any row's work: a row that needs it hangs. */
export function limit(): AbortSignal {
  return AbortSignal.timeout(210_000);
}

export function request(program: string, args: readonly string[] = [], more: Partial<ExecRequest> = {}): ExecRequest {
  return {
    key: newExecKey(),
    program,
    args,
    env: {},
    cwd: '/workspace',
    stdin: null,
    // A row that expects the end of this time names a shorter one. An emulated VM on a busy machine needs minutes.
    timeoutMs: 200_000,
    maxOutputBytes: 64 * 1024 * 1024,
    ...more,
  };
}

export function script(text: string, more: Partial<ExecRequest> = {}): ExecRequest {
  return request('sh', ['-c', text], more);
}

export async function run(sandbox: Sandbox, wanted: ExecRequest): Promise<Ran> {
  const exec = await sandbox.exec(wanted, limit());
  const ran = await follow(exec);
  await exec.acknowledge();
  return ran;
}

/** Reads both streams until the end, as a stage does. */
export async function follow(exec: Exec): Promise<Ran> {
  const signal = limit();
  const [stdout, stderr, exit] = await Promise.all([
    collect(exec.output('stdout', 0, signal)),
    collect(exec.output('stderr', 0, signal)),
    exec.wait(signal),
  ]);
  return { exit, stdout, stderr };
}

/** Runs a command that must succeed. Returns its standard output as text without the last newline. */
export async function textOf(sandbox: Sandbox, wanted: ExecRequest): Promise<string> {
  const { exit, stdout, stderr } = await run(sandbox, wanted);
  assert.equal(
    exit.exitCode,
    0,
    `${wanted.program} ${wanted.args.join(' ')}: ${exit.reason} ${exit.message} ${stderr.toString().slice(0, 500)}`,
  );
  return stdout.toString().replace(/\n$/, '');
}

export async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

export async function* chunks(body: Uint8Array, chunkBytes = 64 * 1024): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < body.length; at += chunkBytes) yield body.subarray(at, at + chunkBytes);
}

export function stdinOf(body: Uint8Array): NonNullable<ExecRequest['stdin']> {
  return { sizeBytes: body.length, open: (offset) => chunks(body.subarray(offset)) };
}

/** Bytes in which every position differs from its neighbours. */
export function countingBytes(sizeBytes: number): Buffer {
  const body = Buffer.alloc(sizeBytes + 8);
  for (let at = 0; at < sizeBytes; at += 8)
    body.write(`${String((at / 8) % 10_000_000).padStart(7, '0')}\n`, at, 'latin1');
  return body.subarray(0, sizeBytes);
}

export function assertSameBytes(actual: Buffer, expected: Buffer, what: string): void {
  assert.equal(actual.length, expected.length, `${what}: length`);
  if (actual.equals(expected)) return;
  let at = 0;
  while (actual[at] === expected[at]) at += 1;
  assert.fail(
    `${what}: first difference at byte ${at}: ${JSON.stringify(actual.subarray(at, at + 24).toString('latin1'))}, expected ${JSON.stringify(expected.subarray(at, at + 24).toString('latin1'))}`,
  );
}

/** Asserts that a promise rejects with this code. */
export async function assertCode(promise: Promise<unknown>, code: string, what: string): Promise<void> {
  let error: unknown = null;
  try {
    await promise;
  } catch (thrown) {
    error = thrown;
  }
  assert.notEqual(error, null, `${what}: nothing was thrown, expected ${code}`);
  assert.ok(
    isCodedError(error) && error.code === code,
    `${what}: ${String(error)} (${isCodedError(error) ? error.code : 'no code'}), expected ${code}`,
  );
}

/** Runs a row's body with a VM of its own, which ends afterwards. */
export async function withOwnVm<T>(
  c: Conformance,
  plan: Partial<LaunchSpec>,
  body: (sandbox: Sandbox, key: VmKey) => Promise<T>,
): Promise<T> {
  const key = c.newKey();
  try {
    return await body(await c.backend.launch(key, { ...c.plan, mounts: [], ...plan }, limit()), key);
  } finally {
    await c.backend.release(key);
  }
}
