/** A micro-VM of this process. */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { SandboxFacts, Sandbox as Vm, VmUsage } from '../activities/ports/sandbox.ts';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { isDirectVmId } from '../domain/run/direct-vm.ts';
import { checkGuestPath, checkKnown, refuse } from './check.ts';
import { type Checkpoint, type CheckpointOptions, chooseFrom, listCheckpoints, makeCheckpoint } from './checkpoint.ts';
import { InputPipe, sourceOf } from './command-input.ts';
import { Command, type CommandState } from './command.ts';
import {
  checkCommand,
  checkCommandId,
  EXEC_KEYS,
  EXEC_OUTPUT_BYTES,
  type ExecOptions,
  type ExecResult,
  MAX_OUTPUT_BYTES,
  SPAWN_KEYS,
  type SpawnOptions,
} from './exec-options.ts';
import { checkLaunchOptions, type LaunchOptions } from './launch-options.ts';
import { findPreparedPlace, findStateDir, mockVms, throwNotReady, openRealVms, type SourceOptions } from './sources.ts';
import { type NetworkEvent, networkEvents } from './network.ts';
import type { OpenedVm, SandboxInfo } from './vm-source.ts';

export interface ConnectOptions {
  readonly signal?: AbortSignal;
  /** Variables of every command; those of `launch` are not stored. */
  readonly env?: Readonly<Record<string, string>>;
  readonly stateDir?: string;
}

export type ListOptions = Pick<ConnectOptions, 'stateDir'>;

const NEVER = new AbortController().signal;
const FILE_BYTES = 64 * 1024 * 1024;

/**
 * A VM that this process owns. It ends with `close()`, at the end of an `await using` block, and with the process,
 * unless it was launched with `keep`. Every method throws a CodedError: `vm/lost` if the VM has died, and `fence/stale`
 * if another process has connected to it.
 */
export class Sandbox implements AsyncDisposable {
  readonly id: string;
  readonly name: string | null;
  /** The platform of the VM. A simulation never reports that it is a VM. */
  readonly facts: SandboxFacts;
  readonly info: SandboxInfo;
  readonly #vm: Vm;
  readonly #notices: OpenedVm['notices'];
  readonly #env: Readonly<Record<string, string>>;
  readonly #stateDir: string;
  #closing: Promise<void> | null = null;

  /**
   * Boots a VM.
   * @throws TypeError for an option; CodedError `host/not-ready`, `vm/no-capacity`, `vm/too-large`, `host/isolation`,
   * `vm/boot-timeout`, `vm/refused`, `vm/checkpoint-unfit`; the signal's reason
   */
  static async launch(options: LaunchOptions = {}): Promise<Sandbox> {
    const choice = checkLaunchOptions(options);
    if (choice.isMock && choice.spec.isolation !== 'none')
      throw new CodedError(
        'host/isolation',
        `isolation ${choice.spec.isolation} is demanded, and mode mock isolates nothing: leave out one of them`,
      );
    const signal = options.signal ?? NEVER;
    signal.throwIfAborted();
    const source = choice.isMock ? mockVms() : openRealVms(options);
    const stateDir = findStateDir(options);
    const opened = await source.launch(chooseFrom(choice, stateDir), signal).catch(throwNotReady);
    return new Sandbox(opened, choice.env, stateDir);
  }

  /**
   * Takes over a living VM, of this process or another one. Calls of its former owner fail from then on. The VM ends
   * with this process, unless it was launched with `keep`.
   * @throws CodedError `vm/lost` when no VM of this id is alive
   */
  static async connect(id: string, options: ConnectOptions = {}): Promise<Sandbox> {
    if (!isDirectVmId(id)) throw refuse('id', id, 'the id of a sandbox, as Sandbox.list() gives it');
    const signal = options.signal ?? NEVER;
    signal.throwIfAborted();
    const opened =
      (await mockVms().connect(id, signal)) ?? (await openRealVms(options).connect(id, signal).catch(throwNotReady));
    if (opened === null) throw new CodedError('vm/lost', `no sandbox ${id} is alive here: see Sandbox.list()`);
    return new Sandbox(opened, options.env ?? {}, findStateDir(options));
  }

  /** Lists every living sandbox of the state folder, and the mocks of this process. */
  static async list(options: ListOptions & SourceOptions = {}): Promise<readonly SandboxInfo[]> {
    return [...(await mockVms().list()), ...(await openRealVms(options).list().catch(throwNotReady))];
  }

  /** Lists the checkpoints of the state folder, oldest first, with those that `voidbox snapshot create` made. */
  static async checkpoints(options: ListOptions = {}): Promise<readonly Checkpoint[]> {
    return listCheckpoints(findStateDir(options));
  }

  private constructor({ vm, notices, info }: OpenedVm, env: Readonly<Record<string, string>>, stateDir: string) {
    this.id = info.id;
    this.name = info.name;
    this.info = info;
    this.facts = vm.facts;
    this.#vm = vm;
    this.#notices = notices;
    this.#env = env;
    this.#stateDir = stateDir;
  }

  /** Runs a command to its end and collects its output. A failed command is a result, not an error. */
  async exec(program: string, args: readonly string[] = [], options: ExecOptions = {}): Promise<ExecResult> {
    checkKnown<ExecOptions>('the options of `exec`', options, EXEC_KEYS);
    const defaults = { env: this.#env, maxOutputBytes: EXEC_OUTPUT_BYTES };
    const choice = checkCommand(program, args, options, defaults);
    const { signal = NEVER } = options;
    signal.throwIfAborted();
    const request = { ...choice, key: newCommandId(), stdin: sourceOf(options.stdin) };
    const exec = await this.#vm.exec(request, NEVER);
    const onAbort = (): void => void exec.signal('SIGKILL').catch(() => undefined);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      const [end, stdout, stderr] = await Promise.all([
        exec.wait(NEVER),
        textOf(exec.output('stdout', 0, NEVER)),
        textOf(exec.output('stderr', 0, NEVER)),
      ]);
      await exec.acknowledge();
      signal.throwIfAborted();
      const { reason, exitCode, signal: endedBy, message, startedAtMs, endedAtMs } = end;
      return { reason, exitCode, signal: endedBy, stdout, stderr, message, startedAtMs, endedAtMs };
    } catch (error) {
      // The command's input broke, or the VM did. No caller has a handle on the command, so it is killed.
      await exec.signal('SIGKILL').catch(() => undefined);
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Starts a command without waiting for it. If a command with the given id was started before, returns that command.
   */
  async spawn(program: string, args: readonly string[] = [], options: SpawnOptions = {}): Promise<Command> {
    checkKnown<SpawnOptions>('the options of `spawn`', options, SPAWN_KEYS);
    const defaults = { env: this.#env, maxOutputBytes: MAX_OUTPUT_BYTES };
    const choice = checkCommand(program, args, options, defaults);
    const key = options.id === undefined ? newCommandId() : checkCommandId(options.id);
    const { stdin: input } = options;
    if (typeof input === 'string' && input !== 'pipe')
      throw refuse('stdin', input, "'pipe', bytes or a source of bytes: Buffer.from(text) for a text");
    const pipe = input === 'pipe' ? new InputPipe() : null;
    const stdin = pipe?.source ?? sourceOf(input === 'pipe' ? undefined : input);
    const known = options.id === undefined ? null : await this.#known(key);
    if (known !== null) return known;
    return new Command(key, await this.#vm.exec({ ...choice, key, stdin }, NEVER), pipe);
  }

  /**
   * Lists the commands that run, and those that have ended and were not forgotten, of every process that was connected.
   */
  async commands(): Promise<readonly CommandState[]> {
    return (await this.#vm.execs()).map(({ key, isRunning }) => ({ id: key, isRunning }));
  }

  /** Finds a command by its id, to read its output, wait for it or end it; null if the VM does not know it. */
  command(id: string): Promise<Command | null> {
    return this.#known(checkCommandId(id));
  }

  /** Writes a file with mode 0644 for uid 1000, and creates its parent folders. */
  async writeFile(path: string, data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === 'string' ? Buffer.from(data) : data;
    await this.#vm.writeFile(checkGuestPath('path', path), bytes.length, toStream(bytes), NEVER);
  }

  /**
   * Reads the bytes of a file; null if there is no regular file.
   * @throws RangeError when it is larger than `maxBytes` (64 MiB by default)
   */
  async readFile(path: string, options: { readonly maxBytes?: number } = {}): Promise<Buffer | null> {
    const { maxBytes = FILE_BYTES } = options;
    const abort = new AbortController();
    const file = await this.#vm.readFile(checkGuestPath('path', path), abort.signal);
    if (file === null) return null;
    if (file.sizeBytes > maxBytes) {
      abort.abort();
      throw new RangeError(
        `${path} has ${file.sizeBytes} bytes, at most ${maxBytes} are read: raise maxBytes, or use getTar`,
      );
    }
    return Buffer.concat(await collect(file.bytes));
  }

  /** Unpacks a tar below a folder, which is created if it does not exist. */
  async putTar(path: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#vm.putTar(checkGuestPath('path', path), tar, NEVER);
  }

  /** Returns the content of a folder, or one file, as a tar with checked entries; null if the path does not exist. */
  getTar(path: string): Promise<AsyncIterable<Uint8Array> | null> {
    return this.#vm.getTar(checkGuestPath('path', path), NEVER);
  }

  /**
   * Saves the VM's disk, from which `Sandbox.launch({ from })` starts other VMs. No command may run. Memory, `/dev/shm`
   * and `/run/credentials` are not saved.
   * @throws TypeError for an option; CodedError `vm/busy`, `vm/checkpoint-failed`, `vm/checkpoint-exists`,
   * `vm/checkpoint-limit`, `vm/checkpoint-secrets`, `store/io`; the signal's reason
   */
  checkpoint(options: CheckpointOptions = {}): Promise<Checkpoint> {
    return makeCheckpoint(this.#vm, findPreparedPlace(this.#stateDir), this.info.hasSecrets, options);
  }

  /** Returns the resources of this machine that the VM has used so far. */
  usage(): Promise<VmUsage> {
    return this.#vm.usage();
  }

  /**
   * Streams the refused connections of the VM and the ends of its connections, from its first event. It ends with the
   * VM, or when this process lets go of it.
   */
  network(options: { readonly signal?: AbortSignal } = {}): AsyncIterable<NetworkEvent> {
    const source = {
      notices: this.#notices,
      renew: () => this.#vm.renew(),
      hasLetGo: () => this.#closing !== null,
    };
    return networkEvents(source, options.signal ?? NEVER);
  }

  /** Ends the VM. If it was launched with `keep`, it stays, and this process lets go of it. Can be called again. */
  close(): Promise<void> {
    return this.info.keepTtlMs === null ? this.stop() : (this.#closing ??= this.#detach());
  }

  /** Ends the VM, kept or not. If another process took the VM over, it stays. */
  stop(): Promise<void> {
    return (this.#closing ??= this.#vm.stop().catch((error: unknown) => {
      if (!isCodedError(error) || (error.code !== 'fence/stale' && error.code !== 'vm/lost')) throw error;
      this.#vm.detach();
    }));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #detach(): Promise<void> {
    this.#vm.detach();
  }

  async #known(id: string): Promise<Command | null> {
    const known = (await this.#vm.execs()).some(({ key }) => key === id);
    if (!known) return null;
    // A known key starts no command, so the rest of the request is ignored.
    const request = {
      key: id,
      program: 'true',
      args: [],
      env: {},
      cwd: '/',
      stdin: null,
      timeoutMs: 1,
      maxOutputBytes: 1,
    };
    return new Command(id, await this.#vm.exec(request, NEVER), null);
  }
}

function newCommandId(): string {
  return `c-${randomBytes(8).toString('hex')}`;
}

async function* toStream(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
  yield bytes;
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return parts;
}

async function textOf(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await collect(bytes)).toString('utf8');
}
