/**
 * A place of its own for one end-to-end story: a state folder, the real command line as a child process, the real
 * server, real VMs, and ways to kill each of them. Disposing it proves that nothing is left.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunEvent } from '../../domain/run/event.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { openStores } from '../../store/open-stores.ts';
import { runsDir, vmsDir, runDir } from '../../store/state-folder.ts';

export const BIN = join(findPackageRoot(), 'bin', 'voidbox.js');

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCli {
  readonly child: ChildProcess;
  readonly done: Promise<CliResult>;
}

export interface KeeperProcess {
  readonly dir: string;
  readonly vmKey: string;
  readonly pid: number;
}

interface StackFile {
  readonly supervisorPid: number;
  readonly serverPid: number;
  readonly workerPid: number;
  readonly address: string;
}

/** Renders the last events, a line each, with seconds since the first. */
function timelineOf(events: readonly RunEvent[]): string {
  const begunAtMs = events[0]?.atMs ?? 0;
  return events
    .slice(-40)
    .map(({ atMs, body }) => `${((atMs - begunAtMs) / 1_000).toFixed(1)} ${JSON.stringify(body).slice(0, 400)}`)
    .join('\n');
}

function outputIn(events: readonly RunEvent[], stage: string, stream: 'stdout' | 'stderr'): string {
  let text = '';
  for (const { body } of events)
    if (body.type === 'output' && body.stage === stage && body.stream === stream)
      text += body.encoding === 'utf8' ? body.data : Buffer.from(body.data, 'base64').toString('utf8');
  return text;
}

/** Polls until `probe` gives something other than null, false or undefined. */
export async function until<T>(
  what: string,
  limitMs: number,
  probe: () => Promise<T> | T,
  everyMs = 50,
): Promise<NonNullable<T>> {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await probe();
    if (value !== null && value !== undefined && value !== false) return value as NonNullable<T>;
    if (Date.now() > end) throw new Error(`waited ${limitMs} ms for ${what}`);
    await sleep(everyMs);
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // A zombie that its parent has not waited for yet is dead.
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** The folder of a VM that ended keeps the pid of its keeper, which any process may have by now. */
function isKeeperOf(pid: number, dir: string): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(dir);
}

export class Rig implements AsyncDisposable {
  readonly stateDir: string;
  readonly specDir: string;
  readonly env: NodeJS.ProcessEnv;
  readonly #children = new Set<ChildProcess>();
  readonly #stopped = new Set<number>();
  /** The events of runs, with the state of their logs at the time of the read. */
  readonly #read = new Map<string, { readonly stamp: string | null; readonly events: readonly RunEvent[] }>();

  constructor(variables: Readonly<Record<string, string>> = {}) {
    const root = mkdtempSync(join(tmpdir(), 'voidbox-e2e-'));
    this.stateDir = join(root, 'state');
    this.specDir = root;
    this.env = { ...process.env, VOIDBOX_STATE_DIR: this.stateDir, NO_COLOR: '1', ...variables };
    for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command'])
      delete this.env[name];
  }

  /** Writes a spec and returns its path. */
  spec(name: string, text: string): string {
    const file = join(this.specDir, name);
    writeFileSync(file, text);
    return file;
  }

  start(...args: readonly string[]): RunningCli {
    return this.startWith({}, ...args);
  }

  /** Starts a command with variables that only this command gets. */
  startWith(variables: Readonly<Record<string, string>>, ...args: readonly string[]): RunningCli {
    return this.#spawn(variables, args, 'ignore');
  }

  /** Returns the command line, for callers that start it by other means. */
  commandLine(...args: readonly string[]): readonly string[] {
    return [process.execPath, BIN, ...args];
  }

  /** Starts a command whose standard input is the child's `stdin`. */
  startFed(...args: readonly string[]): RunningCli {
    return this.#spawn({}, args, 'pipe');
  }

  #spawn(variables: Readonly<Record<string, string>>, args: readonly string[], stdin: 'ignore' | 'pipe'): RunningCli {
    const child = spawn(process.execPath, [BIN, ...args], {
      env: { ...this.env, ...variables },
      cwd: this.specDir,
      stdio: [stdin, 'pipe', 'pipe'],
    });
    // A command may end before it has read all input.
    child.stdin?.on('error', () => undefined);
    this.#children.add(child);
    let stdout = '';
    let stderr = '';
    child.stdout!.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const done = new Promise<CliResult>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => {
        this.#children.delete(child);
        resolve({ code, stdout, stderr });
      });
    });
    return { child, done };
  }

  async cli(...args: readonly string[]): Promise<CliResult> {
    return await this.start(...args).done;
  }

  /** Starts a run without following it. */
  async launch(specFile: string, runId: string, ...args: readonly string[]): Promise<void> {
    const result = await this.cli('run', specFile, '--detach', '--run-id', runId, ...args);
    if (result.code !== 0) throw new Error(`run -d ended with ${result.code}: ${result.stdout}${result.stderr}`);
  }

  stack(): StackFile | null {
    try {
      return JSON.parse(readFileSync(join(this.stateDir, 'stack.json'), 'utf8')) as StackFile;
    } catch {
      return null;
    }
  }

  async liveStack(limitMs = 30_000): Promise<StackFile> {
    return await until('a live stack', limitMs, () => {
      const stack = this.stack();
      return stack && isAlive(stack.workerPid) && isAlive(stack.serverPid) ? stack : null;
    });
  }

  async events(runId: string): Promise<readonly RunEvent[]> {
    const events: RunEvent[] = [];
    const { reader, close } = await openStores(this);
    for await (const event of reader.read(runId, 0)) events.push(event);
    await close();
    return events;
  }

  /** For waits: the log is mostly unchanged since the previous check, so its events are cached. */
  async #eventsSoFar(runId: string): Promise<readonly RunEvent[]> {
    const log = statSync(join(runDir(this.stateDir, runId), 'events.jsonl'), { throwIfNoEntry: false, bigint: true });
    const stamp = log === undefined ? null : `${log.ino} ${log.size} ${log.mtimeNs}`;
    const known = this.#read.get(runId);
    if (stamp !== null && known?.stamp === stamp) return known.events;
    const events = await this.events(runId);
    this.#read.set(runId, { stamp, events });
    return events;
  }

  /** For repeated checks; `events` reads the contents of events. */
  async hasEvent(runId: string, type: RunEvent['body']['type']): Promise<boolean> {
    return (
      existsSync(runDir(this.stateDir, runId)) &&
      (await this.#eventsSoFar(runId)).some(({ body }) => body.type === type)
    );
  }

  async eventOf<T extends RunEvent['body']['type']>(
    runId: string,
    type: T,
    limitMs = 120_000,
    stage?: string,
  ): Promise<Extract<RunEvent['body'], { type: T }>> {
    let events: readonly RunEvent[] = [];
    const probe = async (): Promise<Extract<RunEvent['body'], { type: T }> | null> => {
      if (!existsSync(runDir(this.stateDir, runId))) return null;
      events = await this.#eventsSoFar(runId);
      const found = events.find(
        ({ body }) => body.type === type && (stage === undefined || ('stage' in body && body.stage === stage)),
      );
      if (found === undefined && events.some(({ body }) => body.type === 'run-finished'))
        throw new Error(`run ${runId} has ended without event ${type}`);
      return (found?.body ?? null) as Extract<RunEvent['body'], { type: T }> | null;
    };
    try {
      return await until(`event ${type} of ${runId}`, limitMs, probe);
    } catch (error) {
      throw new Error(`${String(error)}; its events:\n${timelineOf(events)}`, { cause: error });
    }
  }

  /** The bytes of a stage's stream as the store has them, over all attempts with that exec key. */
  async output(runId: string, stage: string, stream: 'stdout' | 'stderr' = 'stdout'): Promise<string> {
    return outputIn(await this.events(runId), stage, stream);
  }

  async waitOutput(runId: string, stage: string, needle: string, limitMs = 120_000): Promise<void> {
    await until(
      `"${needle}" from ${stage}`,
      limitMs,
      async () =>
        existsSync(runDir(this.stateDir, runId)) &&
        outputIn(await this.#eventsSoFar(runId), stage, 'stdout').includes(needle),
    );
  }

  async finish(runId: string, limitMs = 180_000): Promise<Extract<RunEvent['body'], { type: 'run-finished' }>> {
    return await this.eventOf(runId, 'run-finished', limitMs);
  }

  /** VMs whose keeper is alive now. */
  keepers(): readonly KeeperProcess[] {
    const vms = vmsDir(this.stateDir);
    if (!existsSync(vms)) return [];
    const found: KeeperProcess[] = [];
    for (const name of readdirSync(vms)) {
      const dir = join(vms, name);
      try {
        const { pid } = JSON.parse(readFileSync(join(dir, 'keeper.json'), 'utf8')) as { pid: number };
        const { vmKey } = JSON.parse(readFileSync(join(dir, 'intent.json'), 'utf8')) as { vmKey: string };
        if (isAlive(pid) && isKeeperOf(pid, dir)) found.push({ dir, vmKey, pid });
      } catch {
        // A folder that is just made or removed has no keeper.
      }
    }
    return found;
  }

  sockets(): readonly string[] {
    const vms = vmsDir(this.stateDir);
    const names = existsSync(vms) ? readdirSync(vms) : [];
    return names.map((name) => join(vms, name, 'k.sock')).filter((path) => existsSync(path));
  }

  async keeperOf(scope: string, limitMs = 30_000): Promise<KeeperProcess> {
    return await until(
      `the keeper of ${scope}`,
      limitMs,
      () => this.keepers().find((keeper) => keeper.vmKey.split('/').at(-2) === scope) ?? null,
    );
  }

  /** The records of the keeper about its execs, as they are on disk. */
  execRecords(keeper: KeeperProcess): readonly Record<string, unknown>[] {
    const folder = join(keeper.dir, 'exec');
    if (!existsSync(folder)) return [];
    return readdirSync(folder).flatMap((name) => {
      try {
        return [JSON.parse(readFileSync(join(folder, name, 'record.json'), 'utf8')) as Record<string, unknown>];
      } catch {
        return [];
      }
    });
  }

  kill(pid: number): void {
    process.kill(pid, 'SIGKILL');
  }

  /** Holds a process still; disposing wakes it if the test did not. */
  pause(pid: number): void {
    process.kill(pid, 'SIGSTOP');
    this.#stopped.add(pid);
  }

  wake(pid: number): void {
    this.#stopped.delete(pid);
    if (isAlive(pid)) process.kill(pid, 'SIGCONT');
  }

  /** Processes that carry this rig's state folder in their environment, arguments or working directory. */
  processes(): readonly { readonly pid: number; readonly command: string }[] {
    const found: { pid: number; command: string }[] = [];
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        const environment = readFileSync(`/proc/${name}/environ`, 'utf8');
        const cwd = readlinkSync(`/proc/${name}/cwd`);
        if (command.includes(this.stateDir) || environment.includes(this.stateDir) || cwd.startsWith(this.stateDir))
          found.push({ pid: Number(name), command });
      } catch {
        // The process is gone, or its files are not readable for this user.
      }
    }
    return found.filter(({ pid }) => isAlive(pid));
  }

  /** A second worker on the same host, as an operator might start by mistake or a restart might overlap. It ends when it is disposed. */
  async secondWorker(): Promise<AsyncDisposable> {
    const { address } = await this.liveStack();
    const child = spawn(process.execPath, [BIN, 'worker'], {
      env: { ...this.env, TEMPORAL_ADDRESS: address },
      cwd: this.specDir,
      stdio: 'ignore',
    });
    this.#children.add(child);
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
    return {
      async [Symbol.asyncDispose]() {
        child.kill('SIGTERM');
        await Promise.race([ended, sleep(15_000)]);
      },
    };
  }

  /** Returns all processes that these processes started, directly or not. */
  descendants(...pids: readonly number[]): readonly { readonly pid: number; readonly command: string }[] {
    const parents = new Map<number, number>();
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name)) continue;
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
      } catch {
        // The process is gone.
      }
    }
    const isBelow = (child: number): boolean => {
      for (let at: number | undefined = parents.get(child); at !== undefined && at > 1; at = parents.get(at))
        if (pids.includes(at)) return true;
      return false;
    };
    return [...parents.keys()].filter(isBelow).flatMap((pid) => {
      try {
        return [{ pid, command: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() }];
      } catch {
        return [];
      }
    });
  }

  /** Checks that finished runs leave no live VM, no socket of a VM and no handed-over variables. */
  async assertNoRunLeft(): Promise<void> {
    await until('all VMs to end', 15_000, () => this.keepers().length === 0).catch((error: unknown) => {
      throw new Error(
        `VMs are left: ${this.keepers()
          .map((keeper) => keeper.vmKey)
          .join(', ')}`,
        { cause: error },
      );
    });
    // The end of a run releases its VMs; the janitor sweeps three times a minute.
    await until('no socket of a VM to be left', 30_000, () => this.sockets().length === 0).catch((error: unknown) => {
      throw new Error(`sockets of dead keepers are left: ${this.sockets().join(', ')}`, { cause: error });
    });
    const runs = runsDir(this.stateDir);
    for (const runId of existsSync(runs) ? readdirSync(runs) : []) {
      if (existsSync(join(runs, runId, 'host-variables.json')))
        throw new Error(`the variables handed over for ${runId} are left`);
    }
  }

  /** Checks that a finished story leaves nothing of its runs, and no process once its stack has stopped. */
  async assertNothingLeft(): Promise<void> {
    await this.assertNoRunLeft();
    const down = await this.cli('down');
    if (down.code !== 0) throw new Error(`down ended with ${down.code}: ${down.stderr}`);
    await until('all processes to end', 20_000, () => this.processes().length === 0).catch((error: unknown) => {
      throw new Error(`processes are left: ${JSON.stringify(this.processes())}`, { cause: error });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pid of this.#stopped) this.wake(pid);
    for (const child of this.#children) child.kill('SIGKILL');
    for (let round = 0; round < 20 && this.processes().length > 0; round++) {
      for (const { pid } of this.processes()) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // The process has ended on its own.
        }
      }
      await sleep(100);
    }
    rmSync(this.specDir, { recursive: true, force: true });
  }
}

/** Runs the `temporal` command line against the rig's server. */
export async function temporal(cliPath: string, rig: Rig, ...args: readonly string[]): Promise<string> {
  const stack = await rig.liveStack();
  return await new Promise((resolve, reject) => {
    execFile(
      cliPath,
      [...args, '--address', stack.address],
      { encoding: 'utf8', timeout: 30_000 },
      (error, stdout, stderr) => (error ? reject(new Error(`${error.message}\n${stderr}`)) : resolve(stdout)),
    );
  });
}
