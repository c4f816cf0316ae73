/**
 * One client of one VM, under one fence. It collects no bytes: a stream without a reader waits in the keeper's spool,
 * and a source that is faster than the guest waits too.
 */
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import {
  type Answer,
  type ExecEnd,
  type ExecStart,
  type FullSave,
  isVmGone,
  type LaunchConfig,
  OPEN_STDIN_BYTES,
  type OutputPiece,
  type OutputStream,
  readCount,
  readExecEnd,
  readFullSave,
  readText,
  readVmStatus,
  readVmUsage,
  type SignalName,
  type VmStatus,
  type VmUsage,
} from './api.ts';
import { ConnectionError } from './connection.ts';
import { isAlive, launchKeeper, readRunDir } from './keeper-command.ts';
import { KeeperLink, type KeeperPlace, REQUEST_LIMIT_MS, type RequestOptions } from './keeper-link.ts';
import { readOutputPieces } from './output-pieces.ts';
import type { StreamConnection } from './stream.ts';

/** This grace exceeds the keeper's own limit, so that the keeper's error comes first. */
const READY_GRACE_MS = 10_000;
/**
 * A transfer without progress for this long is given up; a keeper ends a silent guest earlier (docs/reference/keeper.md,
 * `guestSilenceMs`).
 */
export const TRANSFER_IDLE_LIMIT_MS = 120_000;
/** The limit for a whole upload with its answer. */
const UPLOAD_LIMIT_MS = 60 * 60 * 1000;
const STDIN_LIMIT_MS = 24 * UPLOAD_LIMIT_MS;
const STOP_LIMIT_MS = 30_000;
/** The limit of a checkpoint: its freeze is bounded by the keeper, and the disk of the host may be slow. */
const CHECKPOINT_LIMIT_MS = 10 * 60 * 1000;
/** Also writes the memory, for which the keeper gives the VMM five minutes, and copies it. */
const FULL_SAVE_LIMIT_MS = 20 * 60 * 1000;

export interface MicroVmLaunch {
  /** The `voidbox-vm` binary. */
  readonly keeper: string;
  /** The run directory of the VM, which is made if absent. */
  readonly dir: string;
  readonly config: LaunchConfig;
}

export class MicroVm {
  readonly vmKey: string;
  readonly dir: string;
  /** True if the launch found the VM alive. */
  readonly attached: boolean;
  readonly #link: KeeperLink;
  #fence = 0;
  /** True for a client beside the one that drives the VM: it uses each fence that the keeper grants. */
  #follows = false;
  #isStopped = false;

  /**
   * Finds or creates the VM, and takes it over: from here on, lower fences are rejected. The guest may still be
   * booting.
   * @throws CodedError `vm/lost` if the directory's VM ran once and is dead, `host/not-ready`, `store/io`
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
   * Takes over a VM that a keeper holds, without launching one; null if the directory has no living VM.
   */
  static attach(options: KeeperPlace, signal: AbortSignal): Promise<MicroVm | null> {
    return MicroVm.#held(options, (vm) => vm.#takeOver(signal));
  }

  /**
   * Uses a VM in parallel to the client that drives it, under the granted fence, also after another client has taken
   * the VM over. Null if the directory has no living VM.
   */
  static join(options: KeeperPlace, signal: AbortSignal): Promise<MicroVm | null> {
    return MicroVm.#held(options, async (vm) => {
      vm.#follows = true;
      await vm.#readFence(signal);
    });
  }

  /** @param begin  the first request of the client to a living VM */
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

  /** The path of the guest's console, which has a size limit; for messages to users. */
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

  /** Renews the lease, and returns its remaining milliseconds. @throws CodedError `fence/stale`, `vm/lost` */
  async renew(): Promise<number> {
    return readCount(await this.#fenced('renew', {}), 'leaseLeftMs', 'renew');
  }

  /** Starts the command once per key; `known` is true if the key was started before. */
  async execStart(exec: ExecStart, signal?: AbortSignal): Promise<{ readonly known: boolean }> {
    const answer = await this.#fenced('exec.start', { ...exec }, signal === undefined ? {} : { signal });
    return { known: answer['known'] === true };
  }

  /** Resolves once the command has ended and its output is complete on disk. */
  async execWait(execKey: string, signal: AbortSignal): Promise<ExecEnd> {
    return readExecEnd(await this.#link.request('exec.wait', { execKey }, { signal, limitMs: null }));
  }

  /**
   * Ends a running command: SIGTERM, and SIGKILL after `graceMs`. The keeper reports `cause` as the cause of the
   * command's end to every client, unless the command ended before.
   */
  async execEnd(execKey: string, cause: object, graceMs: number): Promise<void> {
    await this.#fenced('exec.end', { execKey, graceMs, cause });
  }

  async execSignal(execKey: string, signal: SignalName): Promise<void> {
    await this.#fenced('exec.signal', { execKey, signal });
  }

  /**
   * Runs `copy` while every process of the command is frozen. Returns false if nothing was frozen because the command
   * has ended, or if the command continued before `copy` had settled.
   * @throws the error of `copy`
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
    const opened = await nullIfGuestRefuses(() => this.#open('exec.freeze', { execKey, limitMs }, signal));
    if (opened === null) return false;
    try {
      await copy();
      opened.stream.end();
      return (await nullIfGuestRefuses(() => opened.stream.readAnswer(REQUEST_LIMIT_MS))) !== null;
    } finally {
      opened.stream.close();
    }
  }

  /**
   * Copies the VM's disk to a new file, while the guest has its file system frozen.
   * @throws CodedError `vm/busy`, `vm/checkpoint-failed`, `store/io`; no file is left then
   */
  async checkpoint(dest: string, limitMs: number, signal: AbortSignal): Promise<{ readonly usedBytes: number }> {
    const fields = { dest, limitMs, fence: this.#fence };
    const { stream } = await this.#link.open('checkpoint', fields, signal);
    try {
      const answer = await stream.readAnswer(CHECKPOINT_LIMIT_MS);
      return { usedBytes: readCount(answer, 'usedBytes', 'checkpoint') };
    } catch (error) {
      throw await this.#link.explain(error);
    } finally {
      // The keeper stops a checkpoint whose client has left.
      stream.close();
    }
  }

  /**
   * Saves the VM with its memory and its disk into a new folder, and lets it continue with another session.
   * @throws CodedError `vm/busy`, `vm/checkpoint-failed`, `store/io`; no folder is left then
   */
  async checkpointFull(dest: string, pages: 'all' | 'changed', signal: AbortSignal): Promise<FullSave> {
    const { stream } = await this.#link.open('checkpoint.full', { dest, pages, fence: this.#fence }, signal);
    try {
      return readFullSave(await stream.readAnswer(FULL_SAVE_LIMIT_MS));
    } catch (error) {
      throw await this.#link.explain(error);
    } finally {
      // The keeper removes the files of a client that has left.
      stream.close();
    }
  }

  /** Deletes the command's spool. */
  async execAck(execKey: string): Promise<void> {
    await this.#fenced('exec.ack', { execKey });
  }

  /**
   * Yields bytes of a stream's spool from `offset` until the connection ends, which may be before the stream does. The
   * caller compares the count with `execWait`.
   * @throws ConnectionError if it was interrupted and the VM lives
   */
  async *execOutput(
    execKey: string,
    stream: OutputStream,
    offset: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, void> {
    const opened = await this.#open('exec.output', { execKey, stream, offset }, signal);
    const start = readCount(opened.answer, 'offset', 'exec.output');
    if (start !== offset) {
      opened.stream.close();
      throw new CodedError('vm/protocol', `exec.output of ${execKey} starts at ${start}, asked for ${offset}`);
    }
    yield* opened.stream.bytes(null);
  }

  /**
   * Yields both streams from these offsets, in the order in which their bytes arrived.
   * @returns true at the end of both; false if the connection ended before
   * @throws ConnectionError if it was interrupted and the VM lives
   */
  async *execOutputs(
    execKey: string,
    from: Readonly<Record<OutputStream, number>>,
    signal: AbortSignal,
  ): AsyncGenerator<OutputPiece, boolean, void> {
    const { stdout, stderr } = from;
    const { stream } = await this.#open('exec.outputs', { execKey, stdout, stderr }, signal);
    return yield* readOutputPieces(stream.bytes(null), `exec.outputs of ${execKey}`);
  }

  /**
   * Sends standard input from the keeper's offset. Resolves once the keeper has all of it, or the command no longer
   * reads.
   * @throws ConnectionError if it was interrupted and the VM lives
   */
  async execStdin(
    execKey: string,
    sizeBytes: number,
    open: (offset: number) => AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const { stream, answer } = await this.#open('exec.stdin', { execKey, offset: 0 }, signal);
    try {
      let offset = readCount(answer, 'offset', 'exec.stdin');
      if (offset >= sizeBytes) return;
      for await (const chunk of open(offset)) {
        offset += chunk.length;
        if (offset > sizeBytes) throw new Error(`standard input of ${execKey} is longer than its ${sizeBytes} bytes`);
        // A command may pause for as long as its own deadline allows before it reads on.
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
   * Sends standard input of unknown length, and closes it at its end. It cannot be sent again: if the connection
   * breaks, the command waits for the rest until it is ended.
   * @throws ConnectionError if it was interrupted and the VM lives
   */
  async execOpenStdin(execKey: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const { stream, answer } = await this.#open('exec.stdin', { execKey, offset: 0 }, signal);
    try {
      let sizeBytes = readCount(answer, 'offset', 'exec.stdin');
      if (sizeBytes > 0) throw new Error(`standard input of ${execKey} was begun by another client`);
      for await (const chunk of bytes) {
        sizeBytes += chunk.length;
        if (sizeBytes > OPEN_STDIN_BYTES) throw new Error(`standard input of ${execKey} is too long`);
        await stream.write(chunk, STDIN_LIMIT_MS);
      }
      stream.end();
      // The keeper closes the connection once the guest has all of it.
      for await (const _ of stream.bytes(null));
      await this.#fenced('exec.stdin.end', { execKey, sizeBytes }, { signal });
    } finally {
      stream.close();
    }
  }

  /**
   * @throws CodedError `stage/disk-full`, or `vm/guest-error` if the guest cannot write the file (for example below a
   * file)
   */
  async putFile(
    path: string,
    mode: number,
    sizeBytes: number,
    bytes: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const { stream } = await this.#open('file.put', { path, mode, sizeBytes }, signal);
    await this.#send(stream, bytes, { what: `file.put of ${path}`, sizeBytes });
  }

  /** Returns null if `path` is not a regular file. The bytes are exactly `sizeBytes`, or the iteration throws. */
  async getFile(
    path: string,
    signal: AbortSignal,
  ): Promise<{ readonly sizeBytes: number; readonly bytes: AsyncIterable<Uint8Array> } | null> {
    const { stream, answer } = await this.#open('file.get', { path }, signal);
    if (answer['absent'] === true) {
      stream.close();
      return null;
    }
    const sizeBytes = readCount(answer, 'sizeBytes', 'file.get');
    return { sizeBytes, bytes: this.#counted(stream, sizeBytes, `file.get of ${path}`) };
  }

  async putTar(path: string, bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const { stream } = await this.#open('tar.put', { path }, signal);
    await this.#send(stream, bytes, { what: `tar.put to ${path}`, sizeBytes: null });
  }

  /**
   * Returns null if `path` does not exist, or is not of the requested kind. A tar without its end marker is incomplete:
   * the caller checks this.
   */
  async getTar(
    path: string,
    signal: AbortSignal,
    kind: 'dir' | 'any' = 'any',
  ): Promise<AsyncIterable<Uint8Array> | null> {
    const { stream, answer } = await this.#open('tar.get', { path }, signal);
    if (answer['absent'] === true || (kind === 'dir' && answer['kind'] !== 'dir')) {
      stream.close();
      return null;
    }
    return this.#guarded(stream.bytes(TRANSFER_IDLE_LIMIT_MS));
  }

  /** Returns the reason why the newest tar of a path ended early; null if the keeper knows no reason. */
  async tarCut(path: string): Promise<string | null> {
    const answer = await this.#fenced('tar.cut', { path });
    return answer['message'] === undefined ? null : readText(answer, 'message', 'tar.cut');
  }

  /**
   * Yields notices of the VM's door from `offset` on, as they arrive, until the VM has ended. The stream may end
   * earlier.
   * @throws ConnectionError if it was interrupted and the VM lives
   */
  async *notices(offset: number, signal: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
    const { stream } = await this.#open('notices', { offset }, signal);
    yield* stream.bytes(null);
  }

  /** Returns the guest's figures and the VMM's resident memory, as the keeper reports them. */
  stats(): Promise<Answer> {
    return this.#link.request('stats', {});
  }

  /** Returns the host's resources that the VM has used so far. */
  async usage(): Promise<VmUsage> {
    return readVmUsage(await this.#link.request('usage', {}));
  }

  /**
   * Ties the VM's life to this client: it ends when this process does, for whatever reason. With `keep`, it stays until
   * its lease expires. The connection does not keep the process alive.
   */
  async tie(keep: boolean): Promise<void> {
    const { stream } = await this.#open('tie', { keep }, this.#link.closed);
    stream.unref();
  }

  /**
   * Limits the rest of the VM's life to this time, at most an hour; no renewal or later call changes it. Returns the
   * remaining milliseconds.
   * @param note  clients can read it as long as the VM lives
   */
  async retain(forMs: number, note: object): Promise<number> {
    return readCount(await this.#fenced('retain', { forMs, note }), 'leftMs', 'retain');
  }

  /** Resolves once the VM has ended. It is no error if the VM has already ended. */
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

  /** Closes every connection of this client; pending calls throw `reason`. The VM continues. */
  close(reason: Error = new CodedError('fence/stale', `VM ${this.vmKey}: this client has detached from it`)): void {
    this.#link.close(reason);
  }

  async #takeOver(signal: AbortSignal): Promise<void> {
    this.#fence = readCount(await this.#link.request('attach', {}, { signal }), 'fence', 'attach');
  }

  async #readFence(signal: AbortSignal): Promise<void> {
    this.#fence = readVmStatus(await this.#link.request('status', {}, { signal })).fence;
  }

  #fenced(op: string, fields: Readonly<Record<string, unknown>>, options: RequestOptions = {}): Promise<Answer> {
    return this.#withFence(
      (fence) => this.#link.request(op, { ...fields, fence }, options),
      options.signal ?? this.#link.closed,
    );
  }

  #open(op: string, fields: Readonly<Record<string, unknown>>, signal: AbortSignal): ReturnType<KeeperLink['open']> {
    return this.#withFence((fence) => this.#link.open(op, { ...fields, fence }, signal), signal);
  }

  /** A client that follows sends again under the new fence if another client has just taken the VM over. */
  async #withFence<T>(send: (fence: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    for (;;) {
      const fence = this.#fence;
      try {
        return await send(fence);
      } catch (error) {
        if (!this.#follows || !isCodedError(error) || error.code !== 'fence/stale') throw error;
        await this.#readFence(signal);
        if (this.#fence <= fence) throw error;
      }
    }
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
    // Another client's attach also cuts streams: the renewal then reports it.
    if (count < sizeBytes) {
      await this.renew();
      throw new ConnectionError(`${what} ended at ${count} of ${sizeBytes} bytes`);
    }
  }
}
