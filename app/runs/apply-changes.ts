/** Brings the changes that a run left to a repository of this machine: to its files, or as a branch. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { quote } from '../../domain/units/quote.ts';
import {
  applyToFolder,
  ApplyProblem,
  commitsIn,
  type Conflict,
  conflictsOf,
  findTarget,
  isApplied,
  type Patch,
  type Target,
  writePatch,
} from '../../git/apply-changes.ts';
import { type BuildProduct, findBuildProducts } from '../../git/build-products.ts';
import type { ChangedFile } from '../../git/changed-files.ts';
import { RefusedPlace } from '../../git/held-folder.ts';
import { type Opened, RefusedChanges, withChanges } from '../../git/import-changes.ts';
import { BlockedBranch, makeBranch, RefusedBranchName } from '../../git/make-branch.ts';
import { mergeChanges } from '../../git/merge-changes.ts';
import { GitError, type GitHost } from '../../git/run-git.ts';
import { hasUnfinished, type Recovery, recoverUnfinished, UnreadableRecord } from '../../git/unfinished-apply.ts';
import { WorkspaceProblem } from '../../git/workspace-problem.ts';
import { withLock } from '../../setup/lock.ts';
import { readOutputs } from '../../store/run-outputs.ts';
import { AppError, createEnvironmentError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { openGitScratch } from '../open-git-scratch.ts';
import { nameRunIn, quoteStageName } from './run-id.ts';
import { branchOf, changesOf, type ChangesChoice, type LeftChanges, partialStages } from './workspace-of-run.ts';

/** The changes that a run left, and the stages whose changes they leave out. */
export interface FoundChanges {
  readonly runId: string;
  readonly left: LeftChanges;
  /** Stages whose only changes are the partial changes of an agent that did not succeed. */
  readonly leftOut: readonly string[];
}

export interface ApplyRequest {
  /** How the changes were chosen; a remedy names it again. */
  readonly choice: ChangesChoice;
  /** `branch` changes no file, `check` changes nothing. */
  readonly mode: 'apply' | 'branch' | 'check';
  /** The top folder of the repository. Null: the one that the workspace came from if it exists, else the machine's folder. */
  readonly repository: string | null;
  /** Null: the name is built from the run and the stage. */
  readonly branch: string | null;
  /** Files that changed on both sides are merged, with conflict markers in those that conflict. */
  readonly merges: boolean;
  /** An abort ends git before it writes anything. A write that has begun is completed. */
  readonly signal: AbortSignal;
}

/** News, as it happens. */
export type ApplyNotice =
  | {
      readonly kind: 'opened';
      readonly left: LeftChanges;
      readonly top: string;
      readonly commits: number;
      readonly files: readonly ChangedFile[];
      readonly products: readonly BuildProduct[];
    }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'unfinished' }
  | { readonly kind: 'recovered'; readonly folder: string; readonly recovered: Recovery };

export interface AppliedChanges {
  readonly outcome: 'nothing' | 'branch' | 'already' | 'applies' | 'applied' | 'conflicts' | 'conflict-markers';
  /** The top folder of the repository. */
  readonly repository: string;
  /** Null: files were the aim. */
  readonly branch: string | null;
  /** The commit that the changes are based on, and their last one. */
  readonly base: string;
  readonly commit: string;
  readonly files: readonly ChangedFile[];
  /** Folders of products of builds in `files`. */
  readonly products: readonly BuildProduct[];
  readonly conflicts: readonly Conflict[];
  /** The folder with the changed files as they were before a merge with conflicts; null: nothing was written. */
  readonly before: string | null;
}

/** @throws AppError if the run left no such changes, or several stages did */
export async function findChanges(runId: string, choice: ChangesChoice, machine: Machine): Promise<FoundChanges> {
  const stores = await machine.stores();
  const wire = (await stores.records.get(runId, 'plan').catch(() => null)) as PlanWire | null;
  const outputs = await readOutputs(stores.reader, runId);
  const changes = changesOf(runId, wire === null ? null : fromWire(wire), outputs, choice);
  // The service on another machine must not choose a folder of this one.
  const left = machine.env.service === null ? changes : { ...changes, folder: null };
  return { runId, left, leftOut: choice.isPartial ? [] : partialStages(outputs) };
}

/**
 * Applies all of the changes or none. The outcome of a result with conflicts shows whether files were written.
 * @throws AppError for a repository, a branch or changes that are refused; the signal's reason after an abort
 */
export async function applyChanges(
  found: FoundChanges,
  request: ApplyRequest,
  machine: Machine,
  onNotice: (notice: ApplyNotice) => Promise<void>,
): Promise<AppliedChanges> {
  try {
    const scratch = openGitScratch(machine.env.stateDir);
    const host: GitHost = { path: machine.env.path, home: null, scratch, signal: request.signal };
    return await takeChanges({ ...found, request, machine, host, onNotice });
  } catch (error) {
    request.signal.throwIfAborted();
    throw toAppError(error, found.runId);
  }
}

interface ApplyContext extends FoundChanges {
  readonly request: ApplyRequest;
  readonly machine: Machine;
  readonly host: GitHost;
  readonly onNotice: (notice: ApplyNotice) => Promise<void>;
}

/** The part of a result that an attempt decides. */
type Settled = Pick<AppliedChanges, 'outcome'> & Partial<Pick<AppliedChanges, 'branch' | 'conflicts' | 'before'>>;

async function takeChanges(taking: ApplyContext): Promise<AppliedChanges> {
  const { left, host, machine, onNotice } = taking;
  const target = await findTargetOf(taking);
  const { artifacts } = await machine.stores();
  const bytes = { base: artifacts.open(left.base), bundle: artifacts.open(left.bundle) };
  return await withChanges(host, bytes, async (opened) => {
    const { base, commit, files } = opened;
    const commits = await commitsIn(opened);
    const products = await findBuildProducts(host, opened.repository, base.base, files);
    await onNotice({ kind: 'opened', left, top: target.top, commits, files, products });
    const settled = await settle(taking, target, opened, commits);
    const unset = { branch: null, conflicts: [], before: null };
    return { ...unset, ...settled, repository: target.top, base: base.commit, commit, files, products };
  });
}

async function settle(taking: ApplyContext, target: Target, opened: Opened, commits: number): Promise<Settled> {
  const { runId, left, host, request } = taking;
  if (opened.files.length === 0 && (request.mode !== 'branch' || commits === 0)) return { outcome: 'nothing' };
  if (request.mode === 'branch') {
    const branch = request.branch ?? branchOf(runId, left);
    const { isNew } = await makeBranch(host, opened, target, branch).catch((error: unknown) => {
      throw explainName(error, branch, taking);
    });
    return { outcome: isNew ? 'branch' : 'already', branch };
  }
  if (target.folder === null)
    throw createUsageError(
      `${sanitizeLine(target.top)} is bare and has no working tree`,
      `Create a branch: ${writeApplyAgain(taking, '--branch')}`,
    );
  return await applyToFiles(taking, target.folder, opened);
}

function explainName(error: unknown, branch: string, taking: ApplyContext): unknown {
  if (error instanceof RefusedBranchName)
    return createUsageError(
      `--branch: git does not allow the branch name ${quote(branch)}`,
      'The rules for names: git help check-ref-format',
    );
  if (!(error instanceof BlockedBranch)) return error;
  // Without a slash, a name is blocked by longer ones.
  const free = branch.includes('/') ? branch.replaceAll('/', '-') : `${branch}-1`;
  const other = `--branch=${quoteArgument(free)}`;
  return createUsageError(sanitizeLine(error.message), `Choose another name: ${writeApplyAgain(taking, other)}`);
}

async function applyToFiles(taking: ApplyContext, folder: string, opened: Opened): Promise<Settled> {
  const { host, request } = taking;
  const place = placeOf(taking.machine, folder);
  const patch: Patch = { opened, folder, file: await writePatch(host, opened) };
  const attempt = async (): Promise<Settled> => {
    const conflicts = await conflictsOf(host, patch);
    if (conflicts.length > 0) {
      if (await isApplied(host, patch)) return { outcome: 'already' };
      return request.merges ? await mergeIntoFiles(taking, place, opened) : { outcome: 'conflicts', conflicts };
    }
    if (request.mode === 'check') return { outcome: 'applies' };
    await applyToFolder(withoutAbort(host), patch, place.records);
    return { outcome: 'applied' };
  };
  if (request.mode !== 'check') return await runAlone(place, taking.onNotice, attempt);
  if (await hasUnfinished(place.records)) await taking.onNotice({ kind: 'unfinished' });
  return await attempt();
}

async function mergeIntoFiles(taking: ApplyContext, { folder, records }: Place, opened: Opened): Promise<Settled> {
  const { host, request } = taking;
  const isCheck = request.mode === 'check';
  const merged = await mergeChanges(host, opened, folder, branchOf(taking.runId, taking.left));
  const { conflicts } = merged;
  const outcome = conflicts.length > 0 ? 'conflict-markers' : isCheck ? 'applies' : 'applied';
  if (!merged.changesFiles) return { outcome, conflicts };
  const patch: Patch = { opened: merged.opened, folder, file: await writePatch(host, merged.opened) };
  const inTheWay = await conflictsOf(host, patch);
  if (inTheWay.length > 0) return { outcome: 'conflicts', conflicts: inTheWay };
  const before = isCheck ? null : await applyToFolder(withoutAbort(host), patch, records, conflicts.length > 0);
  return { outcome, conflicts, before };
}

/** Omits the signal, because an abort in the middle of a write would leave half of the files changed. */
function withoutAbort({ signal: _signal, ...host }: GitHost): GitHost {
  return host;
}

interface Place {
  readonly folder: string;
  readonly records: string;
  readonly lock: string;
}

/**
 * Returns a place outside of the repository, because its author could leave records or a link in the repository. All
 * state folders of the user share the lock.
 */
function placeOf({ env }: Machine, folder: string): Place {
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 32);
  return { folder, records: join(env.stateDir, 'applies', name), lock: join(env.cacheDir, 'applies', `${name}.lock`) };
}

/**
 * Runs one attempt at a time, so a second attempt sees all that the first one wrote. Files of a killed attempt are
 * restored first.
 */
async function runAlone<T>(place: Place, onNotice: ApplyContext['onNotice'], attempt: () => Promise<T>): Promise<T> {
  const onWait = (): void => void onNotice({ kind: 'waiting' });
  return await withLock(
    place.lock,
    async () => {
      const nothing = (): Promise<void> => Promise.resolve();
      for (const recovered of await recoverUnfinished(place, (lock) => withLock(lock, nothing, onWait)))
        await onNotice({ kind: 'recovered', folder: place.folder, recovered });
      return await attempt();
    },
    onWait,
  );
}

/** Renders a command line that applies the same changes to the same repository in another way. */
export function writeApplyAgain(
  again: { readonly runId: string; readonly left: LeftChanges; readonly request: ApplyRequest; machine: Machine },
  way: string,
): string {
  const { choice, repository } = again.request;
  const given = [
    way,
    ...(choice.isPartial ? ['--partial'] : []),
    ...(choice.stage === null ? [] : ['--stage', quoteStageName(again.left.stage)]),
    ...(repository === null ? [] : ['--repository', quoteArgument(resolve(again.machine.cwd, repository))]),
  ];
  return `voidbox apply ${given.join(' ')} ${quoteRunId(again.runId)}`;
}

async function findTargetOf({ left, host, request, machine }: ApplyContext): Promise<Target> {
  if (request.repository !== null) {
    const path = resolve(machine.cwd, request.repository);
    if (!existsSync(path)) throw createUsageError(`--repository: \`${sanitizeLine(path)}\` does not exist`);
    return await findTarget(host, path);
  }
  return await findTarget(host, left.folder !== null && existsSync(left.folder) ? left.folder : machine.cwd);
}

function toAppError(error: unknown, runId: string): unknown {
  if (error instanceof UnreadableRecord) return createUsageError(sanitizeLine(error.message));
  if (error instanceof WorkspaceProblem || error instanceof RefusedPlace)
    return createUsageError(sanitizeLine(error.message));
  if (error instanceof ApplyProblem)
    return createUsageError(sanitizeLine(error.message), error.remedy === null ? null : nameRunIn(error.remedy, runId));
  if (error instanceof RefusedChanges) return new AppError('failed', 'workspace/refused', sanitizeLine(error.message));
  if (error instanceof GitError && error.reason === 'missing')
    return createEnvironmentError(
      'host/not-ready',
      'there is no program `git` on the PATH',
      'Install git, or add it to PATH.',
    );
  if (error instanceof GitError && error.reason === 'disk-full')
    return createEnvironmentError(
      'host/disk-full',
      sanitizeLine(error.message),
      'Free space on that disk, and try again.',
    );
  // The message of a `GitError` names what was too large or too slow.
  if (error instanceof GitError) return createUsageError(sanitizeLine(error.message));
  return error;
}
