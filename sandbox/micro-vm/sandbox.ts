/** The Sandbox port over one client of a keeper. */
import {
  type Exec,
  type ExecRequest,
  GUEST_FILE_MODE,
  type Sandbox,
  type SandboxFacts,
} from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { FREEZE_LIMIT_MS } from '../../domain/run/checkpoint.ts';
import { OPEN_STDIN_BYTES, type MicroVm } from '../../native/index.ts';
import { requireEndMarker } from '../../tar/complete.ts';
import { type CheckpointOfVm, writeCheckpoint } from '../checkpoints/folder.ts';
import { createMicroVmExec } from './exec.ts';
import type { FullSaver } from './full-checkpoint.ts';

/** The guest's user: no name resolution, no supplementary groups. */
const GUEST_UID = 1000;
const GUEST_GID = 1000;

/**
 * @param disk  the properties of the VM in the records of its checkpoints
 * @param imageEnv  default variables of commands
 * @param saver  null: the VM cannot be saved with its memory
 */
export function createMicroVmSandbox(
  vm: MicroVm,
  facts: SandboxFacts,
  disk: CheckpointOfVm,
  imageEnv: Readonly<Record<string, string>>,
  onLetGo: () => void,
  saver: FullSaver | null = null,
): Sandbox {
  /** Requests that the keeper has not answered, including those that no caller awaits. */
  const starting = new Set<Promise<unknown>>();
  return {
    facts,

    async exec(request: ExecRequest, signal: AbortSignal): Promise<Exec> {
      signal.throwIfAborted();
      // To the command, an empty source is the same as no source.
      const stdin = request.stdin === null || request.stdin.sizeBytes === 0 ? null : request.stdin;
      const start = vm.execStart({
        execKey: request.key,
        program: request.program,
        args: request.args,
        env: { ...imageEnv, ...request.env },
        cwd: request.cwd,
        uid: GUEST_UID,
        gid: GUEST_GID,
        stdinBytes: stdin === null ? null : (stdin.sizeBytes ?? OPEN_STDIN_BYTES),
        timeoutMs: request.timeoutMs,
        maxOutputBytes: request.maxOutputBytes,
      });
      starting.add(start);
      const forgetStart = (): void => void starting.delete(start);
      start.then(forgetStart, forgetStart);
      const { known } = await rejectOnAbort(start, signal);
      return createMicroVmExec(vm, request.key, stdin, known);
    },

    attachExec: (key) => createMicroVmExec(vm, key, null, true),

    async execs() {
      await Promise.allSettled(starting);
      const { execs } = await vm.status();
      return execs
        .filter(({ state }) => state !== 'acknowledged')
        .map(({ execKey, state }) => ({ key: execKey, isRunning: state === 'running' }));
    },

    writeFile: (guestPath, sizeBytes, bytes, signal, mode = GUEST_FILE_MODE) =>
      vm.putFile(guestPath, mode, sizeBytes, bytes, signal),
    readFile: (guestPath, signal) => vm.getFile(guestPath, signal),
    putTar: (guestPath, bytes, signal) => vm.putTar(guestPath, bytes, signal),

    async getTar(guestPath, signal) {
      const bytes = await vm.getTar(guestPath, signal);
      return bytes === null ? null : requireEndMarker(bytes, () => explainCutTar(vm, guestPath));
    },

    async getFolder(guestPath, signal) {
      const bytes = await vm.getTar(guestPath, signal, 'dir');
      return bytes === null ? null : requireEndMarker(bytes, () => explainCutTar(vm, guestPath));
    },

    usage: () => vm.usage(),

    async checkpoint(target, signal) {
      const { memory: pages, dir } = target;
      if (pages !== undefined) {
        if (saver === null)
          throw new CodedError(
            'vm/checkpoint-failed',
            `VM ${vm.vmKey} was launched without permission to save its memory`,
          );
        const record = await writeCheckpoint(target, disk, (path) => saver.write(path, pages, signal));
        saver.keep({ dir, links: record.memory?.links ?? [] });
        return record;
      }
      const limitMs = Math.min(target.freezeLimitMs ?? FREEZE_LIMIT_MS, FREEZE_LIMIT_MS);
      return await writeCheckpoint(target, disk, (path) => vm.checkpoint(path, limitMs, signal));
    },

    retain: (forMs, note) => vm.retain(forMs, { ...note, env: imageEnv }),

    async renew() {
      await vm.renew();
    },

    detach() {
      onLetGo();
      vm.close();
    },

    async stop() {
      onLetGo();
      await vm.stop();
    },
  };
}

/** @throws the signal's reason, and then ignores the outcome of the work */
async function rejectOnAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort!: () => void;
  const aborted = new Promise<never>((_, reject) => (onAbort = () => reject(signal.reason as Error)));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Explains a tar without its end marker: the keeper rejected its content, or the VM was lost or taken over. */
async function explainCutTar(vm: MicroVm, guestPath: string): Promise<Error> {
  await vm.renew();
  const reason = await vm.tarCut(guestPath);
  return new CodedError(
    'stage/bad-output',
    reason === null
      ? `${guestPath} holds what may not leave a VM: leave regular files, folders and links that stay inside, at most 1,000,000 of them`
      : `${guestPath} may not leave its VM: ${reason}`,
  );
}
