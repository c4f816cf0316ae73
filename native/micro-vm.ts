/**
 * One client of one VM, under one fence. Bytes never gather here: a stream that nobody reads stands still
 * in the keeper's spool, a source that is faster than the guest waits.
 */
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import {
  isVmGone,
  OPEN_STDIN_BYTES,
  readCount,
  readExecEnd,
  readText,
  readVmStatus,
  readVmUsage,
  type Answer,
  type ExecEnd,
  type ExecStart,
  type LaunchConfig,
  type OutputPiece,
  type OutputStream,
  type SignalName,
  type VmStatus,
  type VmUsage,
} from './api.ts';
import { ConnectionError } from './connection.ts';
import { isAlive, launchKeeper, readRunDir } from './keeper-command.ts';
import { KeeperLink, type KeeperPlace, REQUEST_LIMIT_MS, type RequestOptions } from './keeper-link.ts';
import { readOutputPieces } from './output-pieces.ts';
import type { StreamConnection } from './stream.ts';

/** Beyond what the keeper itself grants: its own limit speaks first. */
const READY_GRACE_MS = 10_000;
/** A transfer in which nothing moves for this long is given up; a keeper ends a silent guest before that (docs/reference/keeper.md, `guestSilenceMs`). */
export const TRANSFER_IDLE_LIMIT_MS = 120_000;
/** An upload and the answer to it, in all. */
const UPLOAD_LIMIT_MS = 60 * 60 * 1000;
const STDIN_LIMIT_MS = 24 * UPLOAD_LIMIT_MS;
const STOP_LIMIT_MS = 30_000;

export interface MicroVmLaunch {
  /** The `voidbox-vm` binary. */
  readonly keeper: string;
  /** Run directory of the VM; made if absent. */
  readonly dir: string;
  readonly config: LaunchConfig;
}

export class MicroVm {
  readonly vmKey: string;
  readonly dir: string;
  /** True when launch found the VM alive. */
  readonly attached: boolean;
  readonly #link: KeeperLink;
  #fence = 0;
  #isStopped = false;

  /**
   * Finds or creates the VM and takes it over: from here on lower fences are refused. The guest may still be booting.
   * @throws CodedError `vm/lost` when the directory's VM ran once and is dead, `host/not-ready`, `store/io`
   */
  static async launch(options: MicroVmLaunch, signal: AbortSignal): Promise<MicroVm> {
    const launched = await launchKeeper(options.keeper, options.dir, options.config, signal);
    const { keeper, dir, config } = options;
    const vm = new MicroVm({ keeper, dir, vmKey: config.vmKey }, launched.state === 'attached');
    if (launched.state === 'lost' || launched.state === 'stopped') throw await vm.#link.loss();
    try {
      await vm.#takeOver(signal);
    } catch (error) {
      vm.close();
      throw error;
    }
    return vm;
  }

  /**
   * Takes over a VM that a keeper holds, without launching one; null when the directory has none alive.
   */
  static attach(options: KeeperPlace, signal: AbortSignal): Promise<MicroVm | null> {
    return MicroVm.#held(options, (vm) => vm.#takeOver(signal));
  }

  /**
   * Uses a VM that nobody drives any more beside others who do so: under the fence that is granted already. Null when the
   * directory has none alive.
   */
  static join(options: KeeperPlace, signal: AbortSignal): Promise<MicroVm | null> {
    return MicroVm.#held(options, async (vm) => {
      vm.#fence = readVmStatus(await vm.#link.request('status', {}, { signal })).fence;
    });
  }

  /** @param begin  what a client does first with a VM that is alive */
  static async #held(options: KeeperPlace, begin: (vm: MicroVm) => Promise<void>): Promise<MicroVm | null> {
    if (!isAlive(await readRunDir(options.keeper, options.dir))) return null;
    const vm = new MicroVm(options, true);
    try {
      await begin(vm);
      return vm;
    } catch (error) {
      vm.close();
      if (isVmGone(error) && !isAlive(await readRunDir(options.keeper, options.dir))) return null;
      throw error;
    }
  }

  private constructor(place: KeeperPlace, attached: boolean) {
    this.vmKey = place.vmKey;
    this.dir = place.dir;
    this.#link = new KeeperLink(place);
    this.attached = attached;
  }

  get fence(): number {
    return this.#fence;
  }

  /** The guest's console, capped; for messages to people. */
  get consolePath(): string {
    return this.#link.consolePath;
  }

  async status(): Promise<VmStatus> {
    return readVmStatus(await this.#link.request('status', {}));
  }

  /** Waits for the guest's first answer. @throws CodedError `vm/boot-timeout`, `vm/lost` */
  async ready(timeoutMs: number, signal: AbortSignal): Promise<VmStatus> {
    try {
      const options = { signal, limitMs: timeoutMs + READY_GRACE_MS };
      return readVmStatus(await this.#link.request('ready', { timeoutMs }, options));
    } catch (error) {
      if (!isCodedError(error) || !isVmGone(error) || error.message.includes(this.consolePath)) throw error;
      throw new CodedError(error.code, `VM ${this.vmKey}: ${error.message}; its console: ${this.consolePath}`, {
        cause: error,
      });
    }
  }

  /** Renews the lease; the time that is left of it. @throws CodedError `fence/stale`, `vm/lost` */
  async renew(): Promise<number> {
    return readCount(await this.#fenced('renew', {}), 'leaseLeftMs', 'renew');
  }

  /** Starts the command once per key; `known` tells a key that was started before. */
  async execStart(exec: ExecStart, signal?: AbortSignal): Promise<{ readonly known: boolean }> {
    const answer = await this.#fenced('exec.start', { ...exec }, signal === undefined ? {} : { signal });
    return { known: answer['known'] === true };
  }

  /** Settles when the command has ended and its output is complete on disk. */
  async execWait(execKey: string, signal: AbortSignal): Promise<ExecEnd> {
    return readExecEnd(await this.#link.request('exec.wait', { execKey }, { signal, limitMs: null }));
  }

  /**
   * Ends a command that runs: SIGTERM, and SIGKILL after `graceMs`. The keeper answers `cause` as that of the command's end, to
   * every client, unless the command ended before.
   */
  async execEnd(execKey: string, cause: object, graceMs: number): Promise<void> {
    await this.#fenced('exec.end', { execKey, graceMs, cause });
  }

  async execSignal(execKey: string, signal: SignalName): Promise<void> {
    await this.#fenced('exec.signal', { execKey, signal });
  }

  /**
   * Runs `copy` while every process of the command stands still. False if nothing was frozen, because the command has ended, and
   * if the command continued before `copy` had settled.
   * @throws what `copy` throws
   */
  async whileFrozen(
    execKey: string,
    limitMs: number,
    copy: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const nullIfGuestRefuses = async <T>(work: () => Promise<T>): Promise<T | null> => {
      try {
        return await work();
      } catch (error) {
        if (isCodedError(error) && error.code === 'vm/guest-error') return null;
        throw await this.#link.explain(error);
      }
    };
    const fields = { execKey, limitMs, fence: this.#fence };
    const opened = await nullIfGuestRefuses(() => this.#link.open('exec.freeze', fields, signal));
    if (opened === null) return false;
    try {
      await copy();
      opened.stream.end();
      return (await nullIfGuestRefuses(() => opened.stream.readAnswer(REQUEST_LIMIT_MS))) !== null;
    } finally {
      opened.stream.close();
    }
  }

  /** Deletes the command's spool. */
  async execAck(execKey: string): Promise<void> {
    await this.#fenced('exec.ack', { execKey });
  }

  /**
   * Bytes of a stream's spool from `offset` until the connection ends, which may be before the stream does:
   * the caller compares the count with `execWait`.
   * @throws ConnectionError when it was interrupted and the VM lives
   */
  async *execOutput(
    execKey: string,
    stream: OutputStream,
    offset: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, void> {
    const opened = await this.#link.open('exec.output', { execKey, stream, offset, fence: this.#fence }, signal);
    const start = readCount(opened.answer, 'offset', 'exec.output');
    if (start !== offset) {
      opened.stream.close();
      throw new CodedError('vm/protocol', `exec.output of ${execKey} starts at ${start}, asked for ${offset}`);
    }
    yield* opened.stream.bytes(null);
  }

  /**
   * Both streams from these offsets, in the order in which their bytes came.
   * @returns true at the end of both; false if the connection ended before
   * @throws ConnectionError if it was interrupted and the VM lives
   */
  async *execOutputs(
    execKey: string,
    from: Readonly<Record<OutputStream, number>>,
    signal: AbortSignal,
  ): AsyncGenerator<OutputPiece, boolean, void> {
    const { stdout, stderr } = from;
    const { stream } = await this.#link.open('exec.outputs', { execKey, stdout, stderr, fence: this.#fence }, signal);
    return yield* readOutputPieces(stream.bytes(null), `exec.outputs of ${execKey}`);
  }

  /**
   * Sends standard input from where the keeper stands. Settles when all of it is the keeper's, or when the
   * command no longer reads.
   * @throws ConnectionError when it was interrupted and the VM lives
   */
  async execStdin(
    execKey: string,
    sizeBytes: number,
    open: (offset: number) => AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const { stream, answer } = await this.#link.open('exec.stdin', { execKey, offset: 0, fence: this.#fence }, signal);
    try {
      let offset = readCount(answer, 'offset', 'exec.stdin');
      if (offset >= sizeBytes) return;
      for await (const chunk of open(offset)) {
        offset += chunk.length;
        if (offset > sizeBytes) throw new Error(`standard input of ${execKey} is longer than its ${sizeBytes} bytes`);
        // A command may rest for as long as its own deadline allows before it reads on.
        await stream.write(chunk, STDIN_LIMIT_MS);
      }
      if (offset !== sizeBytes)
        throw new Error(`standard input of ${execKey} ended at ${offset} of ${sizeBytes} bytes`);
      stream.end();
      for await (const _ of stream.bytes(null));
    } finally {
      stream.close();
    }
  }

  /**
   * Sends standard input whose length only its end tells, and closes it there. It cannot be sent again: where the
   * connection breaks, the command waits for the rest until it is ended.
   * @throws ConnectionError when it was interrupted and the VM lives
   */
  async execOpenStdin(execKey: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const { stream, answer } = await this.#link.open('exec.stdin', { execKey, offset: 0, fence: this.#fence }, signal);
    try {
      let sizeBytes = readCount(answer, 'offset', 'exec.stdin');
      if (sizeBytes > 0) throw new Error(`standard input of ${execKey} was begun by another client`);
      for await (const chunk of bytes) {
        sizeBytes += chunk.length;
        if (sizeBytes > OPEN_STDIN_BYTES) throw new Error(`standard input of ${execKey} is too long`);
        await stream.write(chunk, STDIN_LIMIT_MS);
      }
      stream.end();
      // The keeper closes the connection when all of it is with the guest.
      for await (const _ of stream.bytes(null));
      await this.#fenced('exec.stdin.end', { execKey, sizeBytes }, { signal });
    } finally {
      stream.close();
    }
  }

  /** @throws CodedError `stage/disk-full`, or `vm/guest-error` if the guest cannot put it in place (not a folder) */
  async putFile(
    path: string,
    mode: number,
    sizeBytes: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const { stream } = await this.#link.open('file.put', { path, mode, sizeBytes, fence: this.#fence }, signal);
    await this.#send(stream, bytes, { what: `file.put of ${path}`, sizeBytes });
  }

  /** Null when there is no regular file at `path`. The bytes are exactly `sizeBytes` or the iteration throws. */
  async getFile(
    path: string,
    signal: AbortSignal,
  ): Promise<{ readonly sizeBytes: number; readonly bytes: AsyncIterable<Uint8Array> } | null> {
    const { stream, answer } = await this.#link.open('file.get', { path, fence: this.#fence }, signal);
    if (answer['absent'] === true) {
      stream.close();
      return null;
    }
    const sizeBytes = readCount(answer, 'sizeBytes', 'file.get');
    return { sizeBytes, bytes: this.#counted(stream, sizeBytes, `file.get of ${path}`) };
  }

  async putTar(path: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const { stream } = await this.#link.open('tar.put', { path, fence: this.#fence }, signal);
    await this.#send(stream, bytes, { what: `tar.put to ${path}`, sizeBytes: null });
  }

  /**
   * Null when nothing lies at `path`, or nothing of the kind that is asked for. A tar without its end marker is
   * incomplete: the caller checks.
   */
  async getTar(
    path: string,
    signal: AbortSignal,
    kind: 'dir' | 'any' = 'any',
  ): Promise<AsyncIterable<Uint8Array> | null> {
    const { stream, answer } = await this.#link.open('tar.get', { path, fence: this.#fence }, signal);
    if (answer['absent'] === true || (kind === 'dir' && answer['kind'] !== 'dir')) {
      stream.close();
      return null;
    }
    return this.#guarded(stream.bytes(TRANSFER_IDLE_LIMIT_MS));
  }

  /** Why the newest tar of a path broke off; null when the keeper knows no reason. */
  async tarCut(path: string): Promise<string | null> {
    const answer = await this.#fenced('tar.cut', { path });
    return answer['message'] === undefined ? null : readText(answer, 'message', 'tar.cut');
  }

  /**
   * What the VM's door tells from `offset` on, as it comes, until the VM has ended. It may break off before.
   * @throws ConnectionError when it was interrupted and the VM lives
   */
  async *notices(offset: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
    const { stream } = await this.#link.open('notices', { offset, fence: this.#fence }, signal);
    yield* stream.bytes(null);
  }

  /** The guest's figures and the VMM's resident memory, as the keeper gives them. */
  stats(): Promise<Answer> {
    return this.#link.request('stats', {});
  }

  /** What the VM has taken of its host so far. */
  async usage(): Promise<VmUsage> {
    return readVmUsage(await this.#link.request('usage', {}));
  }

  /**
   * From here on the VM lives as long as this client: it ends when this process does, however it does. With `keep` it
   * stays then, until its lease runs out. The connection keeps no process alive.
   */
  async tie(keep: boolean): Promise<void> {
    const { stream } = await this.#link.open('tie', { keep, fence: this.#fence }, this.#link.closed);
    stream.unref();
  }

  /**
   * From here on the VM ends by itself after this time, at most an hour, and no renewal moves that; said again, nothing changes.
   * The milliseconds that it has left.
   * @param note  is there for clients as long as the VM lives
   */
  async retain(forMs: number, note: object): Promise<number> {
    return readCount(await this.#fenced('retain', { forMs, note }), 'leftMs', 'retain');
  }

  /** Settles when the VM is gone. A VM that is gone already is not an error. */
  async stop(): Promise<void> {
    if (this.#isStopped) return;
    try {
      await this.#fenced('stop', {}, { limitMs: STOP_LIMIT_MS });
    } catch (error) {
      if (!isVmGone(error) || (await this.#link.isAlive())) throw error;
    }
    this.#isStopped = true;
    this.close(new CodedError('vm/lost', `VM ${this.vmKey} was stopped`));
  }

  /** Cuts every connection of this client; what waits on one throws `reason`. The VM goes on. */
  close(reason: Error = new CodedError('fence/stale', `VM ${this.vmKey}: this client has detached from it`)): void {
    this.#link.close(reason);
  }

  async #takeOver(signal: AbortSignal): Promise<void> {
    this.#fence = readCount(await this.#link.request('attach', {}, { signal }), 'fence', 'attach');
  }

  #fenced(op: string, fields: Readonly<Record<string, unknown>>, options: RequestOptions = {}): Promise<Answer> {
    return this.#link.request(op, { ...fields, fence: this.#fence }, options);
  }

  async #send(
    stream: StreamConnection,
    bytes: AsyncIterable<Uint8Array>,
    about: { readonly what: string; readonly sizeBytes: number | null },
  ): Promise<void> {
    try {
      await stream.upload(bytes, about, { idleLimitMs: TRANSFER_IDLE_LIMIT_MS, answerLimitMs: UPLOAD_LIMIT_MS });
    } catch (error) {
      throw await this.#link.explain(error);
    } finally {
      stream.close();
    }
  }

  async *#guarded(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
    try {
      yield* bytes;
    } catch (error) {
      throw await this.#link.explain(error);
    }
  }

  async *#counted(stream: StreamConnection, sizeBytes: number, what: string): AsyncGenerator<Uint8Array, void, void> {
    let count = 0;
    for await (const chunk of this.#guarded(stream.bytes(TRANSFER_IDLE_LIMIT_MS))) {
      count += chunk.length;
      if (count > sizeBytes)
        throw new CodedError('vm/protocol', `${what}: more than the announced ${sizeBytes} bytes came`);
      yield chunk;
    }
    // Another client's attach cuts streams too: then the renewal tells.
    if (count < sizeBytes) {
      await this.renew();
      throw new ConnectionError(`${what} ended at ${count} of ${sizeBytes} bytes`);
    }
  }
}
