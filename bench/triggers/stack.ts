/** An embedded stack of the bench that listens for webhooks, with one deployment. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askStack } from '../../client/embedded/control-client.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { freePort } from '../../workers/embedded/ports.ts';
import { doAtEnd, killAtEnd } from '../guard/guard.mjs';
import { readTreeCpuMs } from '../measure.ts';

export const SECRET = 'the secret of the senders of the bench';
export const DEPLOYMENT = 'bench';

/** No VM: the figures are about events. */
const SPEC = `kind: workflow
name: ${DEPLOYMENT}
sandbox: { mode: mock, isolation: none }
on:
  - name: start
    webhook: { verify: github, secret: BENCH_SECRET }
  - name: ordered
    webhook: { verify: github, secret: BENCH_SECRET }
    order: { key: "\${{ input.key }}" }
  - name: filtered
    webhook: { verify: github, secret: BENCH_SECRET }
    when: input.key == "none"
  - name: yearly
    schedule: { cron: "30 3 1 1 *" }
workflow:
  steps:
    - { name: a, run: { program: echo, args: [x] } }
`;

export interface TriggerStack extends AsyncDisposable {
  readonly stateDir: string;
  readonly port: number;
  /** The address of its Temporal server. */
  readonly address: string;
  /** The folder of the socket of its database. */
  readonly socketDir: string;
  /** The process that serves webhooks and starts runs. */
  readonly servicePid: number;
  /** Runs a command of the command line. @throws Error if it fails */
  run(args: readonly string[]): Promise<void>;
  /** CPU in ms that the processes of the database have used, also those that have ended: each connection has one. */
  readPostgresCpuMs(): number;
}

export async function startTriggerStack(workDir: string, name: string): Promise<TriggerStack> {
  const stateDir = join(workDir, name);
  const port = await freePort();
  const run = async (args: readonly string[], input = ''): Promise<void> => await runCommand(stateDir, args, input);
  const forget = doAtEnd({ run: listCommand(['down']), env: readVariables(stateDir) });
  const stop = async (): Promise<void> => {
    await run(['down']);
    forget();
  };
  try {
    await run(['up', '--listen', `127.0.0.1:${port}`]);
    await run(['secret', 'set', 'BENCH_SECRET'], SECRET);
    const spec = join(workDir, `${name}.yaml`);
    writeFileSync(spec, SPEC);
    await run(['deploy', spec, '--name', DEPLOYMENT]);
    const reply = await askStack(stateDir, 'database');
    const socketDir = reply.kind === 'answer' ? reply.answer.database?.socketDir : undefined;
    if (socketDir === undefined) throw new Error('the stack has no database');
    const { address } = JSON.parse(readFileSync(join(stateDir, 'stack.json'), 'utf8')) as { readonly address: string };
    return {
      stateDir,
      port,
      address,
      socketDir,
      run,
      servicePid: findProcesses(stateDir, /dist\/server\/main\.js|api-bundle/)[0]!,
      readPostgresCpuMs: () => sumCpuMs(findPostgres(stateDir)),
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function listCommand(args: readonly string[]): readonly [string, ...string[]] {
  return [process.execPath, join(findPackageRoot(), 'bin', 'voidbox.js'), ...args];
}

function readVariables(stateDir: string): NodeJS.ProcessEnv {
  return { ...process.env, VOIDBOX_STATE_DIR: stateDir };
}

async function runCommand(stateDir: string, args: readonly string[], input: string): Promise<void> {
  const [program, ...rest] = listCommand(args);
  const child = spawn(program, rest, { env: readVariables(stateDir), stdio: ['pipe', 'ignore', 'inherit'] });
  const forget = killAtEnd(child.pid!);
  child.stdin.end(input);
  const [code] = (await once(child, 'exit')) as [number | null];
  forget();
  if (code !== 0) throw new Error(`voidbox ${args[0]} ended with ${code}`);
}

function findProcesses(stateDir: string, pattern: RegExp): readonly number[] {
  return listPids().filter((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
      return pattern.test(command) && (command.includes(stateDir) || environment.includes(stateDir));
    } catch {
      // The process has ended.
      return false;
    }
  });
}

/** The server has a process for each connection, whose title has no folder. */
function findPostgres(stateDir: string): readonly number[] {
  const known = new Set(findProcesses(stateDir, /\/native\/bin\/postgres -D/));
  for (let added = true; added;) {
    added = false;
    for (const pid of listPids())
      if (!known.has(pid) && known.has(readParent(pid))) {
        known.add(pid);
        added = true;
      }
  }
  return [...known];
}

function listPids(): readonly number[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
}

function readParent(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    // The process has ended.
    return 0;
  }
}

function sumCpuMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    try {
      return sum + readTreeCpuMs(pid);
    } catch {
      // It has ended.
      return sum;
    }
  }, 0);
}
