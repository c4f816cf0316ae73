/**
 * Writable mounts of a stage's VM. A folder is put into the VM once, before the first command, from the capture of the
 * host's folder for the scope. After each success, changes are copied back.
 */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { ActivityDeps } from '../deps.ts';
import type { GitNotice, MountKey } from '../ports/mounts.ts';
import type { HostMount, Sandbox, VmKey } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { OutcomeFailure } from '../attempt/outputs.ts';
import { isVmPrepared, markVmPrepared } from '../attempt/record.ts';

const MIB = 1024 * 1024;
/** A read is repeated, because another command of the VM may change the folder during the read. */
const READ_TRIES = 3;
const READ_PAUSE_MS = 300;

export function hasWritableMounts(request: StageRequest): boolean {
  return writable(request).length > 0;
}

/**
 * Puts the folders into the VM under the VM's lock. No command runs until the mark is set, so the next attempt repeats
 * the work of an attempt that died.
 */
export async function prepareMounts(
  deps: ActivityDeps,
  sandbox: Sandbox,
  request: StageRequest,
  vmKey: VmKey,
  signal: AbortSignal,
): Promise<void> {
  const mounts = writable(request);
  if (mounts.length === 0) return;
  await deps.vms.exclusively(formatVmKey(vmKey), signal, async () => {
    if (await isVmPrepared(deps.marks, vmKey, sandbox.facts)) return;
    for (const mount of mounts) {
      const limits = { maxBytes: request.scope.sandbox.diskMib * MIB };
      const tar = await deps.mounts.capture(keyOf(request, mount), limits, signal);
      // A build before this mark put the folder in before each command, and the command may have changed the folder
      // since.
      if (sandbox.facts.hadCommands) await deps.mounts.adopt(keyOf(request, mount), tar);
      else await sandbox.putTar(mount.guestPath, tar, signal);
    }
    await markVmPrepared(deps.marks, vmKey, sandbox.facts);
  });
}

/** Returns null if all changes are on the host. */
export async function copyMountsBack(
  deps: ActivityDeps,
  sandbox: Sandbox,
  request: StageRequest,
  vmKey: VmKey,
  signal: AbortSignal,
): Promise<OutcomeFailure | null> {
  const mounts = writable(request);
  if (mounts.length === 0) return null;
  return deps.vms.exclusively(formatVmKey(vmKey), signal, async () => {
    for (const mount of mounts) {
      // Other VMs may have the same folder: no VM may change it between the comparison and the write of another VM.
      const refusal = await deps.vms.exclusively(`host ${mount.hostPath}`, signal, () =>
        copyBack(deps, sandbox, request, mount, signal),
      );
      if (refusal !== null) return refusal;
    }
    return null;
  });
}

async function copyBack(
  deps: ActivityDeps,
  sandbox: Sandbox,
  request: StageRequest,
  mount: HostMount,
  signal: AbortSignal,
): Promise<OutcomeFailure | null> {
  for (let tries = 1; ; tries += 1) {
    try {
      const tar = await sandbox.getFolder(mount.guestPath, signal);
      if (tar === null)
        return {
          code: 'stage/bad-output',
          message: `the stage left no folder at ${mount.guestPath}, a writable mount: nothing is copied back`,
        };
      const { refusal, kept } = await deps.mounts.copyBack(keyOf(request, mount), tar);
      if (refusal === null && kept !== undefined) await warnOfKeptGit(deps, request, mount, kept);
      return refusal;
    } catch (error) {
      if (!isCodedError(error) || error.code !== 'stage/bad-output') throw error;
      if (tries === READ_TRIES) return { code: 'stage/bad-output', message: error.message };
    }
    await new Promise((resolve) => setTimeout(resolve, READ_PAUSE_MS));
    signal.throwIfAborted();
  }
}

/** Warns once per attempt and mount. */
async function warnOfKeptGit(
  { events, now }: ActivityDeps,
  { runId, execKey, stage, scope }: StageRequest,
  mount: HostMount,
  { count, paths }: GitNotice,
): Promise<void> {
  const more = count > paths.length ? ` and ${count - paths.length} more` : '';
  const message = sanitizeLine(
    `the mount ${mount.guestPath} of stage ${stage.id} is copied back without ${paths.join(', ')}${more}: git could run programs that these files name. \`git: writable\` at the mount copies them, too`,
  );
  const index = scope.sandbox.mounts.indexOf(mount);
  const body = { type: 'notice', level: 'warning', message } as const;
  await events.append(runId, [{ id: EVENT_ID.gitKept(execKey, index), atMs: now(), body }]);
}

function writable(request: StageRequest): readonly HostMount[] {
  return request.scope.sandbox.mounts.filter((mount) => mount.mode === 'rw');
}

function keyOf(request: StageRequest, { hostPath, guestPath, git }: HostMount): MountKey {
  return {
    ...(git === undefined ? {} : { git }),
    runId: request.runId,
    scope: request.scope.id,
    hostPath,
    guestPath,
  };
}
