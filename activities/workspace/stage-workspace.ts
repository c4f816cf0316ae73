/**
 * The git repository that a stage works in. Git of the host packs it, git of the guest unpacks it, and git of the host
 * checks the objects that come back. A run packs a repository once, so all stages, items and attempts that name it
 * start from one commit.
 */
import { createHash } from 'node:crypto';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef, WorkspacePlan, WorkspaceSource } from '../../domain/plan/plan.ts';
import { mayHaveGit, WORKSPACE_OUTPUTS } from '../../domain/plan/workspace.ts';
import { attemptCommand } from '../../domain/run/attempt.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import { KeyedLock } from '../keyed-lock.ts';
import type { IndexedBase, Refusal, TakenChanges } from '../ports/repositories.ts';
import type { Exec, ExecExit, ExecRequest, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { OutcomeFailure } from '../attempt/outputs.ts';
import { StartFailure } from '../attempt/start-failure.ts';
import { withRoom } from '../vm/wait-for-room.ts';
import { repositoryOf } from '../admission/workspace-policy.ts';
import {
  CHECKED_OUT_SCRIPT,
  COLLECT_FILES_SCRIPT,
  COLLECT_SCRIPT,
  COMMIT_LINE_BYTES,
  FILES_WRITTEN_SCRIPT,
  gitFilesAt,
  UNPACK_SCRIPT,
  UNPACKED_FILES,
} from './scripts.ts';
import { valueAt } from '../../domain/units/mapping.ts';

/** The workspace that the guest unpacks. */
export interface StageWorkspace {
  readonly plan: WorkspacePlan;
  readonly base: DataRef;
  readonly indexed: IndexedBase;
  /**
   * The bundle of the earlier stage that this stage continues; null: it starts from the base. Empty: the earlier stage
   * changed nothing.
   */
  readonly earlier: DataRef | null;
}

export const WORKSPACE_LIMITS = {
  /** The time limit of one git command in the guest, which may be emulated. */
  guestTimeoutMs: 15 * 60_000,
  /** The size limit of the guest's pack, as git of the host accepts it, with the first line. */
  packBytes: 256 * 1024 * 1024 + COMMIT_LINE_BYTES,
} as const;

/** A failure of the workspace that only the author of the stage can fix. */
export class WorkspaceFailure extends StartFailure {
  constructor({ code, message }: OutcomeFailure) {
    super(code, message);
  }
}

const packing = new KeyedLock();

/** A workspace that is packed and has no index yet. */
export type PackedWorkspace = Omit<StageWorkspace, 'indexed'>;

/**
 * Packs the workspace before the stage has a VM. Returns null if the stage has no workspace.
 * @throws WorkspaceFailure, CodedError `admit/mount-refused`, `host/not-ready`, `host/disk-full`
 */
export async function packWorkspace(
  deps: ActivityDeps,
  request: StageRequest,
  life: AttemptLife,
): Promise<PackedWorkspace | null> {
  const { workspace: plan } = request.stage;
  if (plan === undefined) return null;
  const { from } = plan;
  if (from.kind !== 'stage') return { plan, base: await packOnce(deps, request, from, life), earlier: null };
  const outputs = valueAt(request.upstream, from.stage)?.outputs;
  const base = outputs?.[WORKSPACE_OUTPUTS.base];
  const earlier = outputs?.[WORKSPACE_OUTPUTS.bundle];
  if (base === undefined || earlier === undefined)
    throw new Error(`stage ${request.stage.id} continues the workspace of ${from.stage}, which has no workspace`);
  return { plan, base, earlier };
}

/**
 * Indexes the workspace, which needs no VM and takes no longer than its boot.
 * @throws as `packWorkspace` does
 */
export async function indexWorkspace(
  deps: ActivityDeps,
  request: StageRequest,
  packed: PackedWorkspace | null,
  life: AttemptLife,
): Promise<StageWorkspace | null> {
  return packed === null ? null : { ...packed, indexed: await indexOnce(deps, request, packed.base, life) };
}

async function packOnce(
  deps: ActivityDeps,
  { runId, stage }: StageRequest,
  source: Exclude<WorkspaceSource, { readonly kind: 'stage' }>,
  life: AttemptLife,
): Promise<DataRef> {
  const name = `workspace-${createHash('sha256').update(toCanonicalJson(source)).digest('hex').slice(0, 32)}`;
  return await packing.run(`${runId}/${name}`, life.ended, async () => {
    const known = (await deps.marks.get(runId, name)) as { readonly bundle: DataRef } | null | undefined;
    if (known !== null && known !== undefined) return known.bundle;
    life.phase('packing the repository');
    const repository = await repositoryOf(deps, runId, stage.id, source);
    const packed = requireUsable(
      stage.id,
      await withRoom(deps.disk, `the repository of stage ${stage.id}`, life.ended, () =>
        deps.repositories.pack(repository, life.ended),
      ),
    );
    await deps.marks.put(runId, name, { bundle: packed.bundle });
    return packed.bundle;
  });
}

/**
 * Indexes a base once, as `packOnce` packs it. The base of a continued workspace comes from the host on which the
 * earlier stage ran.
 */
async function indexOnce(
  deps: ActivityDeps,
  { runId, stage }: StageRequest,
  bundle: DataRef,
  life: AttemptLife,
): Promise<IndexedBase> {
  const name = `workspace-index-${bundle.sha256.slice(0, 32)}`;
  return await packing.run(`${runId}/${name}`, life.ended, async () => {
    const known = (await deps.marks.get(runId, name)) as IndexedBase | null | undefined;
    if (known !== null && known !== undefined) return known;
    const indexed = requireUsable(
      stage.id,
      await withRoom(deps.disk, `the repository of stage ${stage.id}`, life.ended, () =>
        deps.repositories.index(bundle, life.ended),
      ),
    );
    await deps.marks.put(runId, name, { ...indexed });
    return indexed;
  });
}

/** @throws WorkspaceFailure */
function requireUsable<T extends object>(stage: string, answer: T | Refusal): T {
  if (!('problem' in answer)) return answer;
  const message = sanitizeLine(`the workspace of stage ${stage} cannot be packed: ${answer.problem}`);
  throw new WorkspaceFailure({ code: 'workspace/unusable', message });
}

/**
 * Unpacks the workspace in the VM, before the stage's own command. A worker that takes over calls it again and attaches
 * to the command of the same key.
 * @throws WorkspaceFailure
 */
export async function unpackWorkspace(
  deps: Pick<ActivityDeps, 'artifacts' | 'repositories' | 'disk' | 'now'>,
  sandbox: Sandbox,
  request: StageRequest,
  workspace: StageWorkspace,
  signal: AbortSignal,
): Promise<void> {
  const key = attemptCommand(request.execKey, 'unpack');
  const { guestPath } = workspace.plan;
  const { base } = workspace.indexed;
  let args = ['-c', UNPACK_SCRIPT, 'sh', guestPath, base];
  // Once the command runs, it owns the files, and its arguments no longer change.
  if (!(await sandbox.execs()).some((exec) => exec.key === key)) {
    const hasGit = mayHaveGit(request.scope.sandbox);
    if (await putCheckedOut(deps, sandbox, request, workspace, signal))
      args = ['-c', hasGit ? CHECKED_OUT_SCRIPT : FILES_WRITTEN_SCRIPT];
    else if (!hasGit)
      throw new WorkspaceFailure({
        code: 'workspace/unusable',
        message: `the workspace of stage ${request.stage.id} has a file that only git can write, such as a submodule or a file with another line ending, and its image \`base\` has no git: write \`image: dev\``,
      });
    else await putObjects(deps, sandbox, workspace, signal);
  }
  const exec = await runInGuest(sandbox, signal, { key, args, maxOutputBytes: 1024 * 1024 });
  const exit = await exec.wait(signal);
  if (exit.reason === 'exited' && exit.exitCode === 0) return;
  throw new WorkspaceFailure({
    code: 'workspace/unusable',
    message: `the workspace of stage ${request.stage.id} cannot be unpacked in its VM: ${await describeExit(exec, exit, signal)}`,
  });
}

/** @returns false if git of the guest must check out; if the guest rejected the tar, its git then reports the reason */
async function putCheckedOut(
  { repositories, disk, now }: Pick<ActivityDeps, 'repositories' | 'disk' | 'now'>,
  sandbox: Sandbox,
  { stage, scope }: StageRequest,
  { plan: { guestPath }, base, indexed, earlier }: StageWorkspace,
  signal: AbortSignal,
): Promise<boolean> {
  const { checkout } = indexed;
  if (checkout === null || checkout === undefined || (earlier !== null && earlier.sizeBytes > 0)) return false;
  const gitFiles = mayHaveGit(scope.sandbox) ? gitFilesAt(indexed.base) : null;
  try {
    await withRoom(disk, `the repository of stage ${stage.id}`, signal, async () => {
      const tar = repositories.checkOut({ base, indexed: { ...indexed, checkout }, gitFiles, nowMs: now() }, signal);
      await sandbox.putTar(guestPath, tar, signal);
    });
    return true;
  } catch (error) {
    if (!isCodedError(error) || error.code !== 'vm/guest-error') throw error;
    if (gitFiles !== null) return false;
    const message = `the workspace of stage ${stage.id} cannot be written in its VM: ${error.message}`;
    throw new WorkspaceFailure({ code: 'workspace/unusable', message: sanitizeLine(message) });
  }
}

async function putObjects(
  { artifacts }: Pick<ActivityDeps, 'artifacts'>,
  sandbox: Sandbox,
  { plan: { guestPath }, base, indexed, earlier }: StageWorkspace,
  signal: AbortSignal,
): Promise<void> {
  const put = (name: string, ref: DataRef, from = 0): Promise<void> =>
    sandbox.writeFile(`${guestPath}/${name}`, ref.sizeBytes - from, artifacts.open(ref, from), signal);
  await put(UNPACKED_FILES.pack, base, indexed.headerBytes);
  await put(UNPACKED_FILES.index, indexed.index);
  if (earlier !== null && earlier.sizeBytes > 0) await put(UNPACKED_FILES.earlier, earlier);
}

export type LeftWorkspace =
  | { readonly failure: OutcomeFailure; readonly outputs: Readonly<Record<never, DataRef>> }
  | { readonly failure: null; readonly outputs: Readonly<Record<string, DataRef>> };

/**
 * Saves the changes of the stage after its work has succeeded. Everything is durable in the artifact store when the
 * promise resolves.
 */
export async function saveWorkspace(
  deps: ActivityDeps,
  sandbox: Sandbox,
  request: StageRequest,
  workspace: StageWorkspace | null,
  life: AttemptLife,
): Promise<LeftWorkspace> {
  if (workspace === null || workspace.plan.changes === 'none') return { failure: null, outputs: {} };
  const taken = await collectChanges({ deps, sandbox, request, workspace, life });
  if ('problem' in taken) {
    const message = `what stage ${request.stage.id} left in its workspace is not taken: ${taken.problem}`;
    return { failure: { code: 'workspace/refused', message: sanitizeLine(message) }, outputs: {} };
  }
  return {
    failure: null,
    outputs: {
      [WORKSPACE_OUTPUTS.base]: workspace.base,
      [WORKSPACE_OUTPUTS.patch]: taken.patch,
      [WORKSPACE_OUTPUTS.bundle]: taken.bundle,
    },
  };
}

export interface CollectContext {
  readonly deps: Pick<ActivityDeps, 'disk' | 'repositories'>;
  readonly sandbox: Sandbox;
  readonly request: StageRequest;
  readonly workspace: StageWorkspace;
  readonly life: AttemptLife;
  /** The time limit of git in the guest; absent: the default limit. */
  readonly timeoutMs?: number;
}

/**
 * Returns the changes that git of the guest finds and git of the host checks. The guest packs them once per attempt: a
 * later call reads the same pack again. Everything is durable in the artifact store when the promise resolves.
 */
export async function collectChanges({
  deps,
  sandbox,
  request,
  workspace,
  life,
  timeoutMs = WORKSPACE_LIMITS.guestTimeoutMs,
}: CollectContext): Promise<TakenChanges | Refusal> {
  const { stage, runId } = request;
  const { plan, base, earlier } = workspace;
  const signal = life.detached;
  life.phase('collecting the workspace');
  const message = `Not committed by stage ${stage.id} of run ${runId}`;
  const hasGit = mayHaveGit(request.scope.sandbox);
  const args = ['-c', hasGit ? COLLECT_SCRIPT : COLLECT_FILES_SCRIPT, 'sh', plan.guestPath, message];
  const key = attemptCommand(request.execKey, 'collect');
  const exec = await runInGuest(sandbox, signal, { key, args, maxOutputBytes: WORKSPACE_LIMITS.packBytes, timeoutMs });
  const exit = await exec.wait(signal);
  if (exit.reason === 'output-limit')
    return {
      problem: hasGit
        ? `its changes have more than ${WORKSPACE_LIMITS.packBytes - COMMIT_LINE_BYTES} bytes packed`
        : `its files have more than ${WORKSPACE_LIMITS.packBytes} bytes`,
    };
  if (exit.reason !== 'exited' || exit.exitCode !== 0)
    return { problem: await describeExit(exec, exit, signal, timeoutMs, hasGit ? 'git' : 'tar') };
  if (!hasGit)
    return await withRoom(deps.disk, `the workspace of stage ${stage.id}`, signal, () =>
      deps.repositories.takeFiles({ base, tar: exec.output('stdout', 0, signal), message }, signal),
    );
  const commit = await commitOf(exec, signal);
  return await withRoom(deps.disk, `the workspace of stage ${stage.id}`, signal, () =>
    deps.repositories.takeChanges(
      { base, earlier, commit, pack: exec.output('stdout', COMMIT_LINE_BYTES, signal) },
      signal,
    ),
  );
}

/** Runs a command with the guest's own PATH and configuration, without the variables of the stage. */
export function runInGuest(
  sandbox: Sandbox,
  signal: AbortSignal,
  command: Pick<ExecRequest, 'key' | 'args' | 'maxOutputBytes'> & Partial<Pick<ExecRequest, 'stdin' | 'timeoutMs'>>,
): Promise<Exec> {
  return sandbox.exec(
    {
      program: '/bin/sh',
      env: { LC_ALL: 'C', GIT_TERMINAL_PROMPT: '0' },
      cwd: '/workspace',
      stdin: null,
      timeoutMs: WORKSPACE_LIMITS.guestTimeoutMs,
      ...command,
    },
    signal,
  );
}

async function commitOf(exec: Exec, signal: AbortSignal): Promise<string> {
  let line = Buffer.alloc(0);
  for await (const chunk of exec.output('stdout', 0, signal)) {
    line = Buffer.concat([line, chunk.subarray(0, COMMIT_LINE_BYTES)]);
    if (line.length >= COMMIT_LINE_BYTES) break;
  }
  return line.subarray(0, COMMIT_LINE_BYTES - 1).toString('latin1');
}

const TAIL_BYTES = 1024;

/** Returns the last lines of the error output of git, or of tar in an image without git. */
export async function describeExit(
  exec: Exec,
  exit: ExecExit,
  signal: AbortSignal,
  timeoutMs: number = WORKSPACE_LIMITS.guestTimeoutMs,
  program: 'git' | 'tar' = 'git',
): Promise<string> {
  if (exit.reason === 'timeout') return `${program} in the VM took longer than ${timeoutMs / 1_000} s`;
  let tail = Buffer.alloc(0);
  for await (const chunk of exec.output('stderr', Math.max(0, exit.stderrBytes - TAIL_BYTES), signal))
    tail = Buffer.concat([tail, chunk]).subarray(-TAIL_BYTES);
  const text = tail.toString('utf8');
  // Skip a line that is cut: it may begin within a secret, and the redactor would not find the rest.
  const said = (exit.stderrBytes > TAIL_BYTES ? text.slice(text.indexOf('\n') + 1 || text.length) : text).trim();
  const hint = /No space left on device/.test(said) ? '; raise `disk_mb` of the sandbox' : '';
  return sanitizeLine(
    `${said === '' ? exit.message || `${program} in the VM ended with exit code ${exit.exitCode}` : said}${hint}`,
  );
}
